    // What rows are: those of the queries of all heads that share keys, from which key on each sees nothing.
    var last = $T;
    #if CAUSAL
    last = 0;
    #end
    #for r in ROWS
    let row$r = min(down * $ROWS + $r, rows - 1);
    let head$r = group * $SHARE + row$r / $S;
    let query$r = row$r % $S;
    #if BIASED
    let bias$r = at_$BIAS(batch, head$r, query$r, 0);
    #end
    #if MASKED
    let mask$r = at_$MASK(batch, head$r, query$r, 0);
    #end
    #if CAUSAL
    let end$r = min($T, query$r + $OWN + 1);
    last = max(last, end$r);
    #else
    let end$r = $T;
    #end
    #end
