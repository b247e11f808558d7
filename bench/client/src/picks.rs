//! Which path is requested next.

use std::io;
use std::path::Path;

use clap::ValueEnum;

/// How paths are chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Pick {
    Zipf,
    Uniform,
    Single,
    Each,
}

/// Indexes of paths that follow Zipf's law are drawn before the measurement and used in turn.
const DRAWN: usize = 1 << 18;

/// The paths, and where the choice is.
pub(crate) struct Paths {
    paths: Vec<Box<[u8]>>,
    drawn: Vec<u32>,
    pick: Pick,
    next: usize,
    random: u64,
}

impl Paths {
    pub(crate) fn read(file: &Path, pick: Pick) -> io::Result<Self> {
        let text = std::fs::read_to_string(file)?;
        let paths: Vec<Box<[u8]>> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| line.as_bytes().into())
            .collect();
        if paths.is_empty() || u32::try_from(paths.len()).is_err() {
            return Err(io::Error::other(format!("{} has no paths", file.display())));
        }
        let mut paths = Self { paths, drawn: Vec::new(), pick, next: 0, random: seed() };
        if pick == Pick::Zipf {
            paths.draw();
        }
        Ok(paths)
    }

    /// How many paths there are.
    pub(crate) fn count(&self) -> usize {
        self.paths.len()
    }

    /// The path to request next.
    pub(crate) fn next(&mut self) -> &[u8] {
        let turn = self.next;
        self.next = self.next.wrapping_add(1);
        let index = match self.pick {
            Pick::Single => 0,
            Pick::Each => turn % self.paths.len(),
            Pick::Uniform => (self.random() % self.paths.len() as u64) as usize,
            Pick::Zipf => self.drawn[turn % DRAWN] as usize,
        };
        &self.paths[index]
    }

    fn draw(&mut self) {
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=self.paths.len())
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        self.drawn = (0..DRAWN)
            .map(|_| {
                let place = (self.random() >> 11) as f64 / (1u64 << 53) as f64 * sum;
                sums.partition_point(|sum| *sum < place).min(sums.len() - 1) as u32
            })
            .collect();
    }

    /// Xorshift.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Another one in each run, so that runs do not request the same links in the same order.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64) | 1
}
