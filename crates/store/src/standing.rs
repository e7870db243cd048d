//! Whether the store's files are still those that were opened, and no shorter than they were.
//!
//! SQLite does not look: it goes on in a file that was deleted or replaced, and what it writes there is gone with the
//! process. Of a file that was cut short it reads zeros, and a later checkpoint makes it as long as before.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StorageFailure;

/// What SQLite cuts its write-ahead log down to by itself when that has grown beyond it.
pub(crate) const WAL_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// The file and its write-ahead log, as they were when they were opened.
#[derive(Debug)]
pub(crate) struct Standing {
    path: PathBuf,
    files: Vec<Kept>,
}

/// One of the two.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    what: &'static str,
    identity: Identity,
    /// The longest that it was seen to be, as far as it does not become shorter by itself.
    length: AtomicU64,
    /// It may become as short as this by itself.
    kept_bytes: u64,
}

impl Standing {
    /// Of a store that SQLite has just opened at `path`. Files of SQLite are only looked at here, never opened: closing one
    /// would take SQLite's locks from it.
    pub(crate) fn of(path: &Path) -> io::Result<Standing> {
        // SQLite names the write-ahead log after what a link leads to.
        let file = fs::canonicalize(path)?;
        let mut wal = OsString::from(&file);
        wal.push("-wal");
        let files = vec![
            Kept::of(file, "its file", u64::MAX)?,
            Kept::of(wal.into(), "its write-ahead log (the file beside it that ends in -wal)", WAL_KEPT_BYTES)?,
        ];
        Ok(Standing { path: path.to_owned(), files })
    }

    /// Whether what is written now will be found again.
    pub(crate) fn check(&self) -> Result<(), StorageFailure> {
        self.files.iter().try_for_each(|file| self.judge(file, file.look()))
    }

    /// Whether what is read now is what was written. In a file that was deleted or replaced it still is.
    pub(crate) fn whole(&self) -> Result<(), StorageFailure> {
        self.files.iter().try_for_each(|file| match file.look() {
            Found::Shorter => self.judge(file, Found::Shorter),
            Found::Same | Found::Absent | Found::Another | Found::Unknown(_) => Ok(()),
        })
    }

    fn judge(&self, file: &Kept, found: Found) -> Result<(), StorageFailure> {
        let became = match found {
            Found::Same => return Ok(()),
            Found::Absent => "was deleted or moved",
            Found::Another => "was replaced by another file",
            Found::Shorter => "was cut short",
            Found::Unknown(error) => {
                return Err(StorageFailure::Io { path: self.path.clone(), reason: error.to_string() });
            }
        };
        Err(StorageFailure::Changed { path: self.path.clone(), what: format!("{} {became}", file.what) })
    }
}

/// What is there in place of a file that was opened.
enum Found {
    Same,
    Absent,
    Another,
    Shorter,
    Unknown(io::Error),
}

impl Kept {
    fn of(path: PathBuf, what: &'static str, kept_bytes: u64) -> io::Result<Kept> {
        let metadata = fs::metadata(&path)?;
        let length = AtomicU64::new(metadata.len().min(kept_bytes));
        Ok(Kept { path, what, identity: Identity::of(&metadata), length, kept_bytes })
    }

    fn look(&self) -> Found {
        // Read before the file is: a length that somebody else finds meanwhile must not be ahead of it.
        let before = self.length.load(Ordering::Acquire);
        match fs::metadata(&self.path) {
            Ok(metadata) if Identity::of(&metadata) != self.identity => Found::Another,
            Ok(metadata) if metadata.len() < before => Found::Shorter,
            Ok(metadata) => {
                self.length.fetch_max(metadata.len().min(self.kept_bytes), Ordering::AcqRel);
                Found::Same
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Absent,
            Err(error) => Found::Unknown(error),
        }
    }
}

/// What a file is, whatever it is called. Where a system has no numbers for that, all files are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    file: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Identity {
        use std::os::unix::fs::MetadataExt as _;
        Identity { device: metadata.dev(), file: metadata.ino() }
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Identity {
        Identity {}
    }
}
