//! The lock file that keeps a second process off a store.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// An exclusive lock on `<path>.lock`, held until dropped.
///
/// SQLite's own locks would let two processes take turns, and each would then be wrong about what is in its
/// memory. The file itself stays behind: removing it would let a third process lock a new file of the
/// same name while a second still waits for the old one. The system releases the lock of a process
/// that dies.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _file: File,
}

impl StoreLock {
    pub(crate) fn acquire(path: &Path) -> Result<StoreLock, OpenError> {
        let mut lock = behind_links(path).into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock)
            .map_err(|error| OpenError::from_io(path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(StoreLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::LockedByAnother { path: path.to_owned(), lock }),
            Err(TryLockError::Error(error)) => Err(OpenError::from_io(path, &error)),
        }
    }
}

/// A link to a store is that store, and both names must meet at one lock; so must a link to a store that is not there
/// yet, which SQLite creates behind it.
fn behind_links(path: &Path) -> PathBuf {
    // As many as the system itself follows.
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Ok(target) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}
