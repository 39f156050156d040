define(x 1, $a 1, $a 2, $b-c 3, "$q" 1);
