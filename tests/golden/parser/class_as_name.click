elementclass Mine { }
Queue :: Null; Mine :: Null; x :: Null; elementclass x { }
