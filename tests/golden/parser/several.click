Idle -> -> Discard;
x :: ;
y [a] -> Discard;
z [1;
Idle -> Discard
  [3-1] -> Null;
$x;
ok :: Null;
