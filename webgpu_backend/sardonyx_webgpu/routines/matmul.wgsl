// Products of floats: four columns of a row of b, of which there are more.
#if not ALONG
fn right(at: i32, quad: i32) -> vec4f {
    #if WHOLE
    return load4_b((at >> 2u) + quad);
    #else
    let last = $N - 1;
    let x = 4 * quad;
    return vec4f(load_b(at + min(x, last) * $ACROSS), load_b(at + min(x + 1, last) * $ACROSS), load_b(at + min(x + 2, last) * $ACROSS), load_b(at + min(x + 3, last) * $ACROSS));
    #end
}

#end
#include TILE
