elementclass X { input -> Null -> output;
Idle -> X -> Discard;
