//! Which link the next visitor follows.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use anyhow::{Context, bail};

use super::PathChoice;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The default length of a code.
const CODE_LENGTH: usize = 7;
const MAX_PATH: usize = 2048;

/// Paths, side by side in one allocation: ten million of them are usual.
#[derive(Debug)]
pub(super) struct Paths {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl Paths {
    /// One path per line; a request adds a missing slash.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        Self::parse(
            std::fs::read(file)
                .with_context(|| format!("reading the paths from {}", file.display()))?,
        )
    }

    pub(super) fn parse(lines: Vec<u8>) -> anyhow::Result<Self> {
        let mut paths = Self { text: Vec::with_capacity(lines.len()), ends: Vec::new() };
        for (number, line) in lines.split(|&byte| byte == b'\n').enumerate() {
            let path = line.trim_ascii();
            if path.is_empty() {
                continue;
            }
            if path.len() > MAX_PATH || !path.iter().all(u8::is_ascii_graphic) {
                bail!("line {} is not a path", number + 1);
            }
            paths.text.extend_from_slice(path.strip_prefix(b"/").unwrap_or(path));
            paths.ends.push(u32::try_from(paths.text.len()).context("more than 4 GiB of paths")?);
        }
        if paths.ends.is_empty() {
            bail!("there are no paths");
        }
        Ok(paths)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The path without its slash.
    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[start..self.ends[index] as usize]
    }
}

/// Chooses the paths of one visitor.
#[derive(Debug)]
pub(super) struct Picker {
    pick: PathChoice,
    random: Random,
    zipf: Zipf,
    next: usize,
    step: usize,
}

impl Picker {
    /// For the `index`-th of `all` visitors, over `paths` paths.
    pub(super) fn new(pick: PathChoice, paths: usize, index: usize, all: usize) -> Self {
        Self { pick, random: Random::new(), zipf: Zipf::new(paths), next: index, step: all }
    }

    /// Appends the next path, without its slash; false when each has been visited.
    pub(super) fn append(&mut self, paths: &Paths, out: &mut Vec<u8>) -> bool {
        let index = match self.pick {
            PathChoice::Single => 0,
            PathChoice::Uniform => self.random.below(paths.len()),
            PathChoice::Zipf => self.zipf.draw(&mut self.random) - 1,
            PathChoice::Each if self.next >= paths.len() => return false,
            PathChoice::Each => {
                let index = self.next;
                self.next += self.step;
                index
            }
            PathChoice::Unknown => {
                let mut number = self.random.next();
                for _ in 0..CODE_LENGTH {
                    out.push(BASE62[(number % 62) as usize]);
                    number /= 62;
                }
                return true;
            }
        };
        out.extend_from_slice(paths.get(index));
        true
    }
}

/// Ranks 1 to n, the k-th drawn 1/k as often as the first: rejection-inversion, which needs no
/// table.
#[derive(Debug)]
struct Zipf {
    n: f64,
    low: f64,
    high: f64,
    squeeze: f64,
}

impl Zipf {
    #[expect(clippy::cast_precision_loss, reason = "2⁵² paths do not fit into memory")]
    fn new(n: usize) -> Self {
        let n = n as f64;
        Self {
            n,
            low: 1.5_f64.ln() - 1.0,
            high: (n + 0.5).ln(),
            squeeze: 2.0 - (2.5_f64.ln() - 0.5).exp(),
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and n")]
    fn draw(&self, random: &mut Random) -> usize {
        loop {
            let area = self.high + random.fraction() * (self.low - self.high);
            let point = area.exp();
            let rank = point.round().clamp(1.0, self.n);
            if rank - point <= self.squeeze || area >= (rank + 0.5).ln() - 1.0 / rank {
                return rank as usize;
            }
        }
    }
}

/// SplitMix64: fast, and good enough to choose links with.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Seeded anew each time: the server would have cached the codes of an earlier run.
    fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below n")]
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hundred() -> Paths {
        Paths::parse((0..100).map(|n| format!("/code{n}\n")).collect::<String>().into_bytes())
            .unwrap()
    }

    #[test]
    fn lines_become_paths() {
        let paths = Paths::parse(b"/one\ntwo\r\n\n  /three  \n".to_vec()).unwrap();
        assert_eq!([0, 1, 2].map(|index| paths.get(index)), [&b"one"[..], b"two", b"three"]);
        assert_eq!(paths.len(), 3);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for wrong in ["", "\n\n", "/a b", "/a\u{7f}", "/ü"] {
            assert!(Paths::parse(wrong.as_bytes().to_vec()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn each_path_is_visited_once_by_one_visitor() {
        let paths = hundred();
        let mut seen = Vec::new();
        for index in 0..7 {
            let mut picker = Picker::new(PathChoice::Each, paths.len(), index, 7);
            let mut out = Vec::new();
            while picker.append(&paths, &mut out) {
                seen.push(String::from_utf8(std::mem::take(&mut out)).unwrap());
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 100);
    }

    #[test]
    fn the_second_is_half_as_popular_as_the_first() {
        let (zipf, mut random) = (Zipf::new(100), Random(1));
        let mut counts = [0_u32; 101];
        for _ in 0..1_000_000 {
            counts[zipf.draw(&mut random)] += 1;
        }
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [1, 2, 3, 10, 50, 100] {
            let (found, due) = (f64::from(counts[rank]), 1e6 / harmonic / rank as f64);
            // Four times what chance allows, and less than inversion without rejection would be
            // wrong by.
            assert!(
                (found - due).abs() < 4.0 * due.sqrt(),
                "rank {rank}: {found} instead of {due}"
            );
        }
        assert_eq!(counts[0], 0);
    }

    #[test]
    fn one_path_alone_can_be_drawn_in_every_way() {
        let paths = Paths::parse(b"/only".to_vec()).unwrap();
        for pick in [PathChoice::Zipf, PathChoice::Uniform, PathChoice::Single, PathChoice::Each] {
            let mut out = Vec::new();
            assert!(Picker::new(pick, 1, 0, 1).append(&paths, &mut out));
            assert_eq!(out, b"only");
        }
    }

    #[test]
    fn unknown_codes_look_like_codes_and_differ() {
        let (paths, mut picker) = (hundred(), Picker::new(PathChoice::Unknown, 100, 0, 1));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        assert!(picker.append(&paths, &mut one) && picker.append(&paths, &mut other));
        assert!(one.len() == 7 && one.iter().all(u8::is_ascii_alphanumeric));
        assert_ne!(one, other);
    }
}
