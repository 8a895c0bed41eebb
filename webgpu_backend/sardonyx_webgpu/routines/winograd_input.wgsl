// x [B, H, W, C] to [places, tiles, N]: a thread makes all places of a tile for four channels.

fn seen(at: i32, inside: bool, quad: i32) -> vec4f {
    let start = select(0, at, inside) * $C;
    #if WHOLE
    return select(vec4f(), load4_a(start / 4 + quad), inside);
    #else
    let c = 4 * quad;
    let last = $C - 1;
    let x = vec4f(load_a(start + c), load_a(start + min(c + 1, last)), load_a(start + min(c + 2, last)), load_a(start + min(c + 3, last)));
    return select(vec4f(), x, vec4<bool>(inside, inside & (c < last), inside & (c + 1 < last), inside & (c + 2 < last)));
    #end
}

fn unit(tile: i32, quad: i32) {
    let tiles = $BATCH * $DOWN * $ACROSS;
    let high = tile / $ACROSS % $DOWN;
    let wide = tile % $ACROSS;
    let top = high + high / $(apart[0]) * $(apart[0]) * $(outputs[0] - 1) - $(low[0]);
    let left = wide + wide / $(apart[1]) * $(apart[1]) * $(outputs[1] - 1) - $(low[1]);
    let image = tile / $ACROSS / $DOWN * $H;
    #for p in places[0]
    #for x in span[1]
    var d$p_$x = vec4f();
    #end
    #end
    // Columns follow one another in their last place: what is written once for all of them compiles sooner.
    for (var x = 0; x < $(span[1]); x++) {
        let across = left + x * $(apart[1]);
        #for y in span[0]
        let high$y = top + $y * $(apart[0]);
        let x$y = seen((image + high$y) * $W + across, (u32(high$y) < u32($H)) & (u32(across) < u32($W)), quad);
        #end
        #for p in places[0]
        #for x in span[1] - 1
        d$p_$x = d$p_$(x + 1);
        #end
        d$p_$(span[1] - 1) = $(down(p));
        #end
    }
    #for p in places[0]
    #for q in places[1]
    put4(($(p * places[1] + q) * tiles + tile) * $N + 4 * quad, $(across(q, p)));
    #end
    #end
}
