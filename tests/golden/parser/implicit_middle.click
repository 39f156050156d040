x :: Idle -> ( -> Null -> [0] -> Null -> ) -> Discard;
