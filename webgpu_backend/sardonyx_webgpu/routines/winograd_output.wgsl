// y [places, tiles, N] to [B, rows, columns, M]: a thread makes the outputs of a tile for four channels.

fn unit(tile: i32, quad: i32) {
    let tiles = $BATCH * $DOWN * $ACROSS;
    let high = tile / $ACROSS % $DOWN;
    let wide = tile % $ACROSS;
    let row = high + high / $(apart[0]) * $(apart[0]) * $(outputs[0] - 1);
    let column = wide + wide / $(apart[1]) * $(apart[1]) * $(outputs[1] - 1);
    let image = tile / $ACROSS / $DOWN * $HIGH;
    #for p in places[0]
    #for q in places[1]
    let y$p_$q = load4_a(($(p * places[1] + q) * tiles + tile) * ($N / 4) + quad);
    #end
    #end
    #for q in places[1]
    #for r in outputs[0]
    let d$r_$q = $(down(r, q));
    #end
    #end
    let same = of_column(4 * quad);
    #for r in outputs[0]
    let row$r = row + $r * $(apart[0]);
    if (row$r < $HIGH) {
        let to$r = (image + row$r) * $WIDE + column;
        #for c in outputs[1]
        if (column + $c * $(apart[1]) < $WIDE) {
            put_row((to$r + $c * $(apart[1])) * $M + 4 * quad, $M - 4 * quad, same, $(across(c, r)));
        }
        #end
    }
    #end
}
