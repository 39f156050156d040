{ } :: Null;
y :: { ... };
elementclass Q { || ... || };
elementclass { };
