#pragma once
x :: Null;
#line 30 "gen.h"
x :: Null;
