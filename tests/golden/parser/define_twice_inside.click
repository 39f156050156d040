h :: { define($x 1) define($x 2) };
k :: { $x | define($x 1) };
