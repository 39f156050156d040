c :: { input -> Null -> output };
Idle -> [1] c [2] -> Discard;
