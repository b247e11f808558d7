//! A simulated disk that forgets unsynced writes.
//!
//! A VFS for SQLite that wraps the real one. It passes every call on, and stores for each file what
//! would be on the platter: the bytes as of the last sync, and the writes since, in order. A power
//! cut writes the surviving content into another folder: everything synced, and an arbitrary part
//! of the rest. Syncs and writes can be made to fail; a failed sync forgets its writes, as Linux
//! does, so that a later sync succeeds without them.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use rusqlite::ffi;

/// The name of this VFS in SQLite.
pub(crate) const NAME: &str = "forgetful";

const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Syncs of every file fail.
    Sync,
    /// Only syncs of the store's own file fail, not of its log: only checkpoints sync that file.
    FileSync,
    Full,
}

#[derive(Default)]
struct World {
    files: HashMap<PathBuf, Platter>,
    faults: HashMap<PathBuf, Fault>,
}

#[derive(Clone, Default)]
struct Platter {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn fault(&self, path: &Path) -> Fault {
        path.parent().and_then(|folder| self.faults.get(folder)).copied().unwrap_or_default()
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Truncate(size) => bytes.resize(*size, 0),
            Self::Write { offset, bytes: new } => {
                if bytes.len() < offset + new.len() {
                    bytes.resize(offset + new.len(), 0);
                }
                bytes[*offset..offset + new.len()].copy_from_slice(new);
            }
        }
    }
}

impl Platter {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.synced);
        }
    }

    /// The content of the file after a power cut.
    fn after_cut(&self, dice: &mut Dice, luck: Luck) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        match luck {
            Luck::Nothing => {}
            Luck::Prefix => {
                let count = dice.below(self.pending.len() as u64 + 1) as usize;
                self.pending[..count].iter().for_each(|change| change.apply(&mut bytes));
            }
            Luck::Sectors => {
                for change in &self.pending {
                    match change {
                        Change::Truncate(_) if dice.below(2) == 0 => change.apply(&mut bytes),
                        Change::Truncate(_) => {}
                        Change::Write { offset, bytes: new } => {
                            for (n, sector) in new.chunks(SECTOR).enumerate() {
                                if dice.below(2) == 0 {
                                    Change::Write {
                                        offset: offset + n * SECTOR,
                                        bytes: sector.to_vec(),
                                    }
                                    .apply(&mut bytes);
                                }
                            }
                        }
                    }
                }
            }
        }
        bytes
    }
}

/// How much of the unsynced data survives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Luck {
    Nothing,
    Prefix,
    Sectors,
}

/// A random generator with the same numbers in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// Simulates a power cut now: writes the surviving content of a folder into another folder. The
/// store continues to run.
pub(crate) fn cut(folder: &Path, to: &Path, dice: &mut Dice, luck: Luck) {
    let files: Vec<_> = {
        let world = world();
        let here = |path: &&PathBuf| path.parent() == Some(folder);
        world
            .files
            .iter()
            .filter(|(path, _)| here(path))
            .map(|(path, platter)| (path.clone(), platter.clone()))
            .collect()
    };
    assert!(!files.is_empty(), "the store does not use this disk");
    for (path, platter) in files {
        std::fs::write(to.join(path.file_name().unwrap()), platter.after_cut(dice, luck)).unwrap();
    }
}

/// Sets the fault of this folder.
pub(crate) fn fault(folder: &Path, fault: Fault) {
    world().faults.insert(folder.to_owned(), fault);
}

/// Registers this VFS with SQLite.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the default VFS lives as long as the process, and so does our leaked copy of it.
        // Its functions accept the copy as well as the original, because they only read its
        // application data, which is copied too.
        unsafe {
            ffi::sqlite3_initialize();
            let real = ffi::sqlite3_vfs_find(std::ptr::null());
            let mut vfs = *real;
            vfs.zName = c"forgetful".as_ptr();
            vfs.pNext = std::ptr::null_mut();
            vfs.szOsFile = (*real).szOsFile + size_of::<File>() as c_int;
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0), ffi::SQLITE_OK);
        }
    });
}

/// Our part of an open file; the real file follows it in memory.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// Null if this file is not tracked.
    path: *mut PathBuf,
}

/// SAFETY for all functions below: SQLite calls them with files that `open` made, one call at a
/// time for each file.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    unsafe { file.cast::<u8>().add(size_of::<File>()).cast() }
}

unsafe fn path<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a Path> {
    unsafe { (*file.cast::<File>()).path.as_ref().map(PathBuf::as_path) }
}

/// Calls the real file's method of the same name.
macro_rules! pass {
    ($file:ident . $method:ident ( $($argument:expr),* )) => {
        unsafe {
            let real = real($file);
            (*(*real).pMethods).$method.unwrap()(real, $($argument),*)
        }
    };
}

unsafe fn path_of(name: *const c_char) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    unsafe {
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        let ours = file.cast::<File>();
        (*ours).base.pMethods = std::ptr::null();
        (*ours).path = std::ptr::null_mut();
        let code = (*default).xOpen.unwrap()(default, name, real(file), flags, out_flags);
        if code != ffi::SQLITE_OK {
            return code;
        }
        if !name.is_null()
            && flags
                & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL)
                != 0
        {
            let path = path_of(name);
            world().files.entry(path.clone()).or_insert_with(|| Platter {
                synced: std::fs::read(&path).unwrap_or_default(),
                pending: Vec::new(),
            });
            (*ours).path = Box::into_raw(Box::new(path));
        }
        (*ours).base.pMethods = &METHODS.0;
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn delete(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync: c_int,
) -> c_int {
    unsafe {
        world().files.remove(&path_of(name));
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        (*default).xDelete.unwrap()(default, name, sync)
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let code = pass!(file.xClose());
    unsafe {
        let path = std::mem::replace(&mut (*file.cast::<File>()).path, std::ptr::null_mut());
        if !path.is_null() {
            drop(Box::from_raw(path));
        }
    }
    code
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    let Some(path) = (unsafe { path(file) }) else {
        return pass!(file.xWrite(bytes, count, offset));
    };
    let mut world = world();
    if world.fault(path) == Fault::Full {
        return ffi::SQLITE_FULL;
    }
    let code = pass!(file.xWrite(bytes, count, offset));
    if code == ffi::SQLITE_OK {
        let bytes =
            unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count as usize) }.to_vec();
        world
            .files
            .entry(path.to_owned())
            .or_default()
            .pending
            .push(Change::Write { offset: offset as usize, bytes });
    }
    code
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let Some(path) = (unsafe { path(file) }) else {
        return pass!(file.xTruncate(size));
    };
    let mut world = world();
    let code = pass!(file.xTruncate(size));
    if code == ffi::SQLITE_OK {
        world
            .files
            .entry(path.to_owned())
            .or_default()
            .pending
            .push(Change::Truncate(size as usize));
    }
    code
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let Some(path) = (unsafe { path(file) }) else {
        return pass!(file.xSync(flags));
    };
    let mut world = world();
    let fault = world.fault(path);
    let platter = world.files.entry(path.to_owned()).or_default();
    let is_log = path.to_str().is_some_and(|path| path.ends_with("-wal"));
    if fault == Fault::Sync || fault == Fault::FileSync && !is_log {
        platter.pending.clear();
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // The real disk need not sync: its power is never cut.
    platter.sync();
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    pass!(file.xRead(to, count, offset))
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    pass!(file.xFileSize(size))
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass!(file.xLock(level))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass!(file.xUnlock(level))
}

unsafe extern "C" fn check_lock(file: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    pass!(file.xCheckReservedLock(held))
}

unsafe extern "C" fn control(
    file: *mut ffi::sqlite3_file,
    what: c_int,
    argument: *mut c_void,
) -> c_int {
    pass!(file.xFileControl(what, argument))
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    pass!(file.xSectorSize())
}

unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    pass!(file.xDeviceCharacteristics())
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    pass!(file.xShmMap(page, size, extend, to))
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    pass!(file.xShmLock(offset, count, flags))
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    pass!(file.xShmBarrier());
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    pass!(file.xShmUnmap(delete))
}

struct Methods(ffi::sqlite3_io_methods);
// SAFETY: function pointers only.
unsafe impl Sync for Methods {}

static METHODS: Methods = Methods(ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
});
