require(library);
require(library no/such.click);
require(a b c);
x :: { require(library x.click) };
