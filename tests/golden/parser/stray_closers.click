a :: Null };
b :: Null );
c :: Null ||
