// Products with weights of $BITS bits.
#include LEFT
#include TILE
