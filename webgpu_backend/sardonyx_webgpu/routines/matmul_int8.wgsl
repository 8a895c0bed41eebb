// Products of bytes: a word of a row of a, whose bytes are signed if those of b are.
fn word(at: i32) -> u32 {
    #if FLIPPED
    return word_a(at) ^ 0x80808080u;
    #else
    return word_a(at);
    #end
}

#include TILE
