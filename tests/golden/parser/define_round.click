define($a $b);
define($b $c);
define($c $a);
Null($a);
