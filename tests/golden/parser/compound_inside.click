x :: { output -> input; input [1] -> Discard };
elementclass Unheard { || ... };
{ || ... };
