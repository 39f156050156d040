a :: { $x, $x | };
b :: { K $x, $y | };
c :: { K $x, K $y | };
d :: { __REST__ $r, $x | };
