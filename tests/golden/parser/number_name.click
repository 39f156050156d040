1 :: Null; a/2 :: Null;
