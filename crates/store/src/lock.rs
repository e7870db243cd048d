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
        // A link to a store is that store: both names must meet at one lock.
        let mut name = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
        name.push(".lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(PathBuf::from(name))
            .map_err(|error| OpenError::from_io(path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(StoreLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::LockedByAnother { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(OpenError::from_io(path, &error)),
        }
    }
}
