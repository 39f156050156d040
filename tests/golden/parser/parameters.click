g :: { $x | };
h :: { $x Null };
i :: { $x, | };
j :: Null($x