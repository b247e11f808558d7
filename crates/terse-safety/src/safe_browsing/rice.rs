//! Golomb-Rice decoding: a sorted list as its first entry and the differences between neighbours.

use super::message::MalformedMessage;

/// The maximum length of a list; bounds the memory that a response can make us reserve.
const MAX_VALUES: usize = 16 << 20;

/// Encoded numbers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RiceDeltas {
    pub(crate) first: u32,
    /// The number of bits of a difference in binary. The rest is in unary.
    pub(crate) parameter: u64,
    /// How many numbers follow the first.
    pub(crate) count: u64,
    pub(crate) data: Vec<u8>,
}

impl RiceDeltas {
    /// The numbers, in ascending order.
    pub(crate) fn decode(&self) -> Result<Vec<u32>, MalformedMessage> {
        let count = usize::try_from(self.count)
            .ok()
            .filter(|count| *count < MAX_VALUES)
            .ok_or(MalformedMessage("too many entries"))?;
        if count > 0 && !(3..=30).contains(&self.parameter) {
            return Err(MalformedMessage("the Rice parameter must be 3 to 30"));
        }
        // Each entry takes at least this many bits, so the reserved memory is bounded by the
        // message.
        let parameter = u32::try_from(self.parameter).unwrap_or(0);
        if count.saturating_mul(parameter as usize + 1) > self.data.len() * 8 {
            return Err(MalformedMessage("fewer entries than declared"));
        }
        let (mut bits, mut last) = (Bits { data: &self.data, held: 0, count: 0 }, self.first);
        let mut numbers = Vec::with_capacity(count + 1);
        numbers.push(last);
        for _ in 0..count {
            let difference =
                u64::from(bits.ones()?) << parameter | u64::from(bits.take(parameter)?);
            let next = u64::from(last) + difference;
            last = u32::try_from(next).map_err(|_| MalformedMessage("an entry is too large"))?;
            numbers.push(last);
        }
        Ok(numbers)
    }
}

/// Reads bits, lowest bit of each byte first.
struct Bits<'a> {
    data: &'a [u8],
    held: u64,
    count: u32,
}

impl Bits<'_> {
    /// Counts the ones before the next zero and consumes the zero.
    fn ones(&mut self) -> Result<u32, MalformedMessage> {
        let mut ones = 0;
        while self.take(1)? == 1 {
            ones += 1;
            // The largest difference with the smallest parameter.
            if ones > u32::MAX >> 3 {
                return Err(MalformedMessage("an entry is too large"));
            }
        }
        Ok(ones)
    }

    fn take(&mut self, bits: u32) -> Result<u32, MalformedMessage> {
        while self.count < bits {
            let (byte, rest) =
                self.data.split_first().ok_or(MalformedMessage("fewer entries than declared"))?;
            self.held |= u64::from(*byte) << self.count;
            (self.data, self.count) = (rest, self.count + 8);
        }
        let taken = self.held & ((1 << bits) - 1);
        (self.held, self.count) = (self.held >> bits, self.count - bits);
        u32::try_from(taken).map_err(|_| MalformedMessage("an entry is too large"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes numbers, for test servers.
    pub(crate) fn encode(numbers: &[u32], parameter: u32) -> RiceDeltas {
        let mut bits = Vec::new();
        for pair in numbers.windows(2) {
            let difference = pair[1] - pair[0];
            bits.extend((0..difference >> parameter).map(|_| true));
            bits.push(false);
            bits.extend((0..parameter).map(|bit| difference >> bit & 1 == 1));
        }
        let byte = |bits: &[bool]| {
            bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << at)
        };
        let count = numbers.len() as u64 - 1;
        RiceDeltas {
            first: numbers[0],
            parameter: parameter.into(),
            count,
            data: bits.chunks(8).map(byte).collect(),
        }
    }

    fn deltas(first: u32, parameter: u64, count: u64, data: &[u8]) -> RiceDeltas {
        RiceDeltas { first, parameter, count, data: data.to_vec() }
    }

    #[test]
    fn the_documented_examples_are_read() {
        let three = deltas(489_866_504, 30, 2, b"t\x00\xd2\x97\x1b\xedIt\x00");
        assert_eq!(three.decode(), Ok(vec![0x1d32_c508, 0x291b_c542, 0xf7a5_02e5]));
        let three = deltas(0x1d7d_1d75, 30, 2, b"\xf1\x4e\x08\x33\xeb\x16\xa6\x41\x00");
        assert_eq!(three.decode(), Ok(vec![0x1d7d_1d75, 0x6a3f_3131, 0xf273_f40e]));
        assert_eq!(
            deltas(0x3030_3030, 3, 2, b"\x22").decode(),
            Ok(vec![0x3030_3030, 0x3030_3031, 0x3030_3032])
        );
        assert_eq!(deltas(7, 0, 0, b"").decode(), Ok(vec![7]), "one entry needs no parameter");
    }

    #[test]
    fn malformed_input_is_refused_without_reserving_memory() {
        for broken in [
            deltas(1, 30, 5, b"t\x00\xd2\x97\x1b\xedIt\x00"),
            deltas(1, 30, u64::MAX, b""),
            deltas(1, 30, (16 << 20) - 1, b""),
            deltas(1, 2, 1, &[0; 8]),
            deltas(1, 31, 1, &[0; 8]),
            deltas(u32::MAX, 3, 1, &[0b10]),
            deltas(0, 30, 1, &[0xff; 16]),
        ] {
            assert!(broken.decode().is_err(), "{broken:?}");
        }
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(
            numbers in proptest::collection::btree_set(any::<u32>(), 1..50),
            parameter in 24u32..=30,
        ) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            prop_assert_eq!(encode(&numbers, parameter).decode(), Ok(numbers));
        }

        #[test]
        fn any_input_is_handled(
            first: u32,
            parameter in 0u64..40,
            count in 0u64..100,
            data in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            if let Ok(numbers) = deltas(first, parameter, count, &data).decode() {
                prop_assert!(numbers.is_sorted() && numbers.len() as u64 == count + 1);
            }
        }
    }
}
