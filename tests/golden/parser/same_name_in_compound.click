a/b :: Null;
a :: { b :: Null };
