a :: Null -> ( [0] -> [0]; [2] -> Discard ) -> b :: Null;
a => [0] ( [0] -> [0]; [1] -> Discard ) -> b;
a -> (Idle -> Discard) -> b; a -> ( output -> input ) -> b;
