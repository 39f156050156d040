a, b, c :: Null;
a, b -> a, c;
a, b, c => a, b;
a [0,] => [1,] b;
[1] a -> b [2];
