que :: Queue;
Idle -> qeu -> Discrad;
later -> Discard;
later :: Null;
Idle -> input;
