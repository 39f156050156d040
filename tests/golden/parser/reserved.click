provide(x);
provide :: Null;
x :: define;
