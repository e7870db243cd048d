//! Where the bytes of a stream are cut.

/// Sizes of pieces, decided by the input: its first bytes, read again and again.
#[derive(Clone, Debug)]
pub struct Pieces {
    sizes: Vec<usize>,
    turn: usize,
}

impl Pieces {
    /// Takes the sizes from the front of the input, and leaves the rest of it.
    pub fn take<'a>(input: &mut &'a [u8]) -> Self {
        let (head, rest): (&'a [u8], &'a [u8]) = input.split_at(input.len().min(3));
        *input = rest;
        let sizes = head.iter().map(|&byte| usize::from(byte % 61) + 1).collect();
        Self { sizes, turn: 0 }
    }

    /// The next piece of `rest`, which is not empty unless `rest` is; `rest` goes on behind it.
    pub fn cut<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        let size = if self.sizes.is_empty() { 1 } else { self.sizes[self.turn % self.sizes.len()] };
        self.turn += 1;
        let (piece, after): (&'a [u8], &'a [u8]) = rest.split_at(size.min(rest.len()));
        *rest = after;
        piece
    }
}
