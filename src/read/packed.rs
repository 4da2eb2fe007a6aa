//! Numbers and bytes one after another: the format of everything that is saved for the next run.

/// Writes values one after another.
#[derive(Default)]
pub(crate) struct Packer(Vec<u8>);

impl Packer {
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes the number of bytes, and the bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes the count of numbers, and the numbers.
    pub(crate) fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.number(numbers.len() as u64);
        self.0.reserve(numbers.len() * 4);
        numbers.for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what a [`Packer`] wrote; `None` if the bytes end too early. Never takes more memory than there are bytes.
pub(crate) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }

    pub(crate) fn numbers(&mut self) -> Option<Vec<u32>> {
        self.each_number().map(Iterator::collect)
    }

    pub(crate) fn each_number(&mut self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let len = self.number()?;
        let bytes = self.take(usize::try_from(len).ok()?.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)))
    }

    /// Number of bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_taken_out_and_what_is_cut_off_is_noticed() {
        let mut packer = Packer::default();
        packer.number(7);
        packer.bytes(b"name");
        packer.numbers([1, 2, u32::MAX].into_iter());
        packer.bytes(b"");
        let packed = packer.finish();
        let unpack = |bytes: &[u8]| {
            let mut unpacker = Unpacker::new(bytes);
            let all = (unpacker.number()?, unpacker.bytes()?.to_vec(), unpacker.numbers()?, unpacker.bytes()?.len());
            unpacker.is_empty().then_some(all)
        };
        assert_eq!(unpack(&packed), Some((7, b"name".to_vec(), vec![1, 2, u32::MAX], 0)));
        assert!((0..packed.len()).all(|len| unpack(&packed[..len]).is_none()));
        let mut lying = packed.clone();
        lying[8..16].fill(0xff);
        assert_eq!(unpack(&lying), None);
    }
}
