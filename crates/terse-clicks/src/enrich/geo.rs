//! Finds the country and city of an address in a database in MaxMind's format.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use maxminddb::Reader;
use serde::Deserialize;
use terse_core::clicks::Interned;
use terse_core::{Timestamp, is_public_address};
use tracing::{info, warn};

use super::text::printable;

/// The country database that is shipped, two fifths of its size in the binary. [`Reader`] refuses
/// it if it cannot be decompressed.
static COUNTRIES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let compressed = include_bytes!("../../data/countries.mmdb.zst");
    zstd::bulk::decompress(compressed, MAX_SHIPPED_SIZE).unwrap_or_default()
});
const MAX_SHIPPED_SIZE: usize = 16 << 20;
/// [`GeoDatabase::refresh`] checks the file at most this often.
const CHECK_INTERVAL_MS: u64 = 10_000;
/// A geo database is smaller than this.
const MAX_FILE_SIZE: u64 = 2 << 30;
const MAX_CITY_LEN: usize = 80;
const LETTERS: usize = 26;

/// Finds the country and city of an address.
#[derive(Debug)]
pub(crate) struct GeoDatabase {
    reader: Reader<DatabaseBytes>,
    /// All codes from `AA` to `ZZ`, so that clicks share one text per country and a lookup changes
    /// nothing.
    countries: Vec<Interned>,
    watched: Option<WatchedFile>,
}

/// The bytes of a database. A file is read into memory and not mapped: if another process truncated
/// a mapped file, reading it would end this process.
#[derive(Debug)]
enum DatabaseBytes {
    Shipped,
    File(Vec<u8>),
}

impl AsRef<[u8]> for DatabaseBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Shipped => &COUNTRIES,
            Self::File(bytes) => bytes,
        }
    }
}

/// When a file was modified, and its size.
pub(super) type FileVersion = (SystemTime, u64);

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// The version at the last attempt to read the file.
    attempted: Option<FileVersion>,
    checked_ms: i64,
}

impl GeoDatabase {
    /// Opens the file, or without one the country database that is shipped.
    pub(crate) fn open(path: Option<PathBuf>, now: Timestamp) -> io::Result<Self> {
        let countries = all_country_codes();
        let Some(path) = path else {
            let reader = Reader::from_source(DatabaseBytes::Shipped).map_err(invalid)?;
            return Ok(Self { reader, countries, watched: None });
        };
        let attempted = Some(file_version(&path)?);
        let reader = read(&path)?;
        let watched = Some(WatchedFile { path, attempted, checked_ms: now.as_ms() });
        Ok(Self { reader, countries, watched })
    }

    /// Reads the file again if it has changed, and returns whether it did. If the new file cannot
    /// be read, the previous database stays in use.
    pub(crate) fn refresh(&mut self, now: Timestamp) -> bool {
        let Some(watched) = &mut self.watched else { return false };
        // The absolute difference: after the clock was set back the file is still checked.
        if now.as_ms().abs_diff(watched.checked_ms) < CHECK_INTERVAL_MS {
            return false;
        }
        watched.checked_ms = now.as_ms();
        let version = file_version(&watched.path).ok();
        if version == watched.attempted {
            return false;
        }
        watched.attempted = version;
        match read(&watched.path) {
            Ok(reader) => {
                info!(path = %watched.path.display(), "read the changed geo database");
                self.reader = reader;
                true
            }
            Err(error) => {
                warn!(
                    path = %watched.path.display(), %error,
                    "cannot read the changed geo database; the previous one stays in use"
                );
                false
            }
        }
    }

    /// The country and city of an address.
    pub(crate) fn find(&self, address: IpAddr) -> (Option<Interned>, Option<Interned>) {
        if !is_public_address(address) {
            return (None, None);
        }
        let found = self
            .reader
            .lookup(address)
            .ok()
            .and_then(|found| found.decode::<Entry<'_>>().ok().flatten());
        let Some(entry) = found else { return (None, None) };
        let country = entry.country_code.or(entry.country.and_then(|country| match country {
            Country::Nested { iso_code } => iso_code,
            Country::Flat(code) => Some(code),
        }));
        let country = country.and_then(|code| self.country(code));
        let city = entry.city.and_then(|city| match city {
            City::Nested { names } => names.en,
            City::Flat(name) => Some(name),
        });
        let city = city.and_then(|city| printable(city, MAX_CITY_LEN));
        let city = city.map(|city| match &country {
            Some(country) => format!("{city}, {country}").into(),
            None => city,
        });
        (country, city)
    }

    /// The shared text of a country code. `None` if it is not a code, or one that databases use for
    /// an unknown country.
    fn country(&self, code: &str) -> Option<Interned> {
        let code = <[u8; 2]>::try_from(code.to_ascii_uppercase().as_bytes()).ok()?;
        if !code.iter().all(u8::is_ascii_alphabetic) || code == *b"ZZ" || code == *b"XX" {
            return None;
        }
        let [first, second] = code.map(|letter| usize::from(letter - b'A'));
        self.countries.get(first * LETTERS + second).cloned()
    }
}

fn all_country_codes() -> Vec<Interned> {
    let letters = || (b'A'..=b'Z').map(char::from);
    letters()
        .flat_map(|first| letters().map(move |second| format!("{first}{second}").into()))
        .collect()
}

/// The version of a file as it is now.
pub(super) fn file_version(path: &Path) -> io::Result<FileVersion> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len()))
}

fn read(path: &Path) -> io::Result<Reader<DatabaseBytes>> {
    if fs::metadata(path)?.len() > MAX_FILE_SIZE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is larger than 2 GiB"));
    }
    Reader::from_source(DatabaseBytes::File(fs::read(path)?)).map_err(invalid)
}

fn invalid(error: maxminddb::MaxMindDbError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// An entry of a database. MaxMind's own files nest country and city, other files do not.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    country: Option<Country<'a>>,
    #[serde(borrow, default)]
    country_code: Option<&'a str>,
    #[serde(borrow, default)]
    city: Option<City<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Country<'a> {
    Flat(#[serde(borrow)] &'a str),
    Nested {
        #[serde(borrow, default)]
        iso_code: Option<&'a str>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum City<'a> {
    Flat(#[serde(borrow)] &'a str),
    Nested {
        #[serde(borrow, default)]
        names: Names<'a>,
    },
}

#[derive(Default, Deserialize)]
struct Names<'a> {
    #[serde(borrow, default)]
    en: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::mmdb;
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn find(database: &GeoDatabase, address: &str) -> (String, String) {
        let (country, city) = database.find(address.parse().unwrap());
        (country.as_deref().unwrap_or_default().into(), city.as_deref().unwrap_or_default().into())
    }

    #[test]
    fn the_shipped_database_knows_countries() {
        let database = GeoDatabase::open(None, at(0)).unwrap();
        for (address, want) in [
            ("8.8.8.0", "US"),
            ("193.0.6.0", "NL"),
            ("133.11.0.0", "JP"),
            ("200.160.0.0", "BR"),
            ("141.20.1.0", "DE"),
            ("2001:67c:2e8::", "NL"),
            ("2001:4860:4860::", "US"),
            ("127.0.0.1", ""),
            ("10.1.2.0", ""),
            ("192.168.1.0", ""),
            ("::1", ""),
            ("fe80::1", ""),
            ("fd00::1", ""),
            ("203.0.113.0", ""),
        ] {
            assert_eq!(find(&database, address), (want.to_owned(), String::new()), "{address}");
        }
    }

    #[test]
    fn nested_and_flat_entries_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("geo.mmdb");
        for (entry, want) in [
            (mmdb::nested("DE", "Berlin"), ("DE", "Berlin, DE")),
            (mmdb::flat("de", "Berlin"), ("DE", "Berlin, DE")),
            (mmdb::flat("ZZ", "Nowhere"), ("", "Nowhere")),
            (mmdb::flat("Germany", ""), ("", "")),
            (mmdb::map(&[("other", mmdb::text("x"))]), ("", "")),
            (
                mmdb::map(&[("country", mmdb::text("FR")), ("city", mmdb::text("Lyon\n"))]),
                ("FR", "Lyon, FR"),
            ),
            (mmdb::map(&[("country", mmdb::map(&[])), ("city", mmdb::map(&[]))]), ("", "")),
            (mmdb::text("not a map"), ("", "")),
        ] {
            fs::write(&path, mmdb::file(&entry)).unwrap();
            let database = GeoDatabase::open(Some(path.clone()), at(0)).unwrap();
            assert_eq!(find(&database, "8.8.8.8"), (want.0.to_owned(), want.1.to_owned()));
        }
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("geo.mmdb");
        assert!(GeoDatabase::open(Some(path.clone()), at(0)).is_err(), "a missing file");
        fs::write(&path, "not a database").unwrap();
        assert!(GeoDatabase::open(Some(path.clone()), at(0)).is_err(), "a file of another format");
        fs::write(&path, mmdb::file(&mmdb::flat("DE", "Berlin"))).unwrap();
        let mut database = GeoDatabase::open(Some(path.clone()), at(0)).unwrap();
        assert_eq!(find(&database, "8.8.8.8").1, "Berlin, DE");

        fs::write(&path, mmdb::file(&mmdb::flat("FR", "Paris-sur-Seine"))).unwrap();
        assert!(!database.refresh(at(9_999)), "the file was checked less than ten seconds ago");
        assert!(database.refresh(at(10_000)));
        assert_eq!(find(&database, "8.8.8.8").1, "Paris-sur-Seine, FR");
        assert!(!database.refresh(at(20_000)), "unchanged");

        fs::write(&path, "broken").unwrap();
        assert!(!database.refresh(at(30_000)) && !database.refresh(at(40_000)));
        fs::remove_file(&path).unwrap();
        assert!(!database.refresh(at(50_000)));
        assert_eq!(find(&database, "8.8.8.8").1, "Paris-sur-Seine, FR");

        fs::write(&path, mmdb::file(&mmdb::flat("IT", "Roma"))).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        assert!(database.refresh(at(1_000)), "after the clock was set back");
        assert_eq!(find(&database, "8.8.8.8").1, "Roma, IT");
    }

    #[test]
    fn a_damaged_database_never_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("geo.mmdb");
        let whole = mmdb::file(&mmdb::nested("DE", "Berlin"));
        for at_octet in 0..whole.len() {
            for change in [0xff, 0x80, 0x01] {
                let mut damaged = whole.clone();
                damaged[at_octet] ^= change;
                fs::write(&path, &damaged).unwrap();
                if let Ok(database) = GeoDatabase::open(Some(path.clone()), at(0)) {
                    find(&database, "8.8.8.8");
                    find(&database, "2001:4860:4860::");
                }
            }
            fs::write(&path, &whole[..at_octet]).unwrap();
            drop(GeoDatabase::open(Some(path.clone()), at(0)));
        }
    }
}
