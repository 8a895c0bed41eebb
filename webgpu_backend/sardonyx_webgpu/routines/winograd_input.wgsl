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
    let top = (high + high / $(apart[0]) * $(apart[0]) * $(outputs[0] - 1)) * $(stride[0]) - $(low[0]);
    let left = (wide + wide / $(apart[1]) * $(apart[1]) * $(outputs[1] - 1)) * $(stride[1]) - $(low[1]);
    let image = tile / $ACROSS / $DOWN * $H;
    #for y in span[0]
    let y$y = top + $y * $(apart[0]);
    let in$y = u32(y$y) < u32($H);
    let at$y = (image + y$y) * $W + left;
    #for x in span[1]
    let x$y_$x = seen(at$y + $x * $(apart[1]), in$y & (u32(left + $x * $(apart[1])) < u32($W)), quad);
    #end
    #end
    #for x in span[1]
    #for p in places[0]
    let d$p_$x = $(down(p, x));
    #end
    #end
    #for p in places[0]
    #for q in places[1]
    put4(($(p * places[1] + q) * tiles + tile) * $N + 4 * quad, $(across(p, q)));
    #end
    #end
}
