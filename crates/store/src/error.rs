//! One error for each operation, and the two ways in which any of them can fail below it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::record::Tombstone;

/// Why a store could not be opened. Nothing was changed in the file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another [`Store`](crate::Store) of this one, has it open.
    #[error(
        "the store {} is in use by another process, which holds {}. Stop that process, or choose another path",
        path.display(), lock.display()
    )]
    LockedByAnother {
        /// The store's file, as it was named.
        path: PathBuf,
        /// The lock file, beside what a link leads to.
        lock: PathBuf,
    },
    /// The file, or the folder that it would be in, cannot be written.
    #[error(
        "the store {} cannot be written: {reason}. Check that its folder exists and that this user may write there, or choose another path",
        path.display()
    )]
    NotWritable {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file is a SQLite database of some other program.
    #[error(
        "{} is a SQLite database, but not a Runwire store. It was left as it is; choose another path",
        path.display()
    )]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file is no SQLite database, is cut short, or lacks tables that a store has.
    #[error(
        "{} is damaged, or is not a store at all: {reason}. It was left as it is; restore it from a backup, or choose another path",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file was written by a later version of Runwire.
    #[error(
        "the store {} has schema version {found}, and this version of Runwire reads up to {supported}. Use the newer Runwire, or choose another path",
        path.display()
    )]
    NewerSchema {
        /// The store's file.
        path: PathBuf,
        /// The version that the file says it has.
        found: i64,
        /// The latest version that this program knows.
        supported: i64,
    },
    /// The file was written by an earlier version of Runwire, and was opened only to be looked at.
    #[error(
        "the store {} has schema version {found}, and is brought to version {supported} when a server opens it. Start one on it first",
        path.display()
    )]
    OlderSchema {
        /// The store's file.
        path: PathBuf,
        /// The version that the file says it has.
        found: i64,
        /// The version that can be looked at.
        supported: i64,
    },
    /// Anything else that the disk or the system refused.
    #[error("the store {} could not be opened: {reason}", path.display())]
    Io {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

impl OpenError {
    pub(crate) fn from_io(path: &Path, error: &io::Error) -> OpenError {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem => OpenError::NotWritable { path, reason },
            _ => OpenError::Io { path, reason },
        }
    }

    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> OpenError {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Corrupt { path, reason },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                OpenError::NotWritable { path, reason }
            }
            _ => OpenError::Io { path, reason },
        }
    }
}

/// What can go wrong below any operation: the file, or that there is no longer a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageFailure {
    /// The disk, or the store's own `max_bytes`, has no room left. Nothing of the append was kept.
    #[error(
        "the store {} is full: the disk or its configured size limit has no room left. Free some space or raise the limit; reading goes on meanwhile",
        path.display()
    )]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The disk or SQLite refused. Nothing of the append was kept.
    #[error("the store {} failed: {reason}. Check the disk that it is on", path.display())]
    Io {
        /// The store's file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// The file or its write-ahead log was deleted, replaced or cut short under this process. Nothing is written as long as
    /// that is so: it would be lost.
    #[error(
        "{what} under this server, so the store {} takes nothing more: that would be lost. Put back what was there, or stop the server and restore the store from a backup",
        path.display()
    )]
    Changed {
        /// The store's file.
        path: PathBuf,
        /// Which file, and what became of it.
        what: String,
    },
    /// What is to be written has waited too long. It goes on waiting, unless it was given up by whoever asked for it: nothing
    /// of that was kept.
    #[error(
        "the store {} has taken nothing for {} s. Another program may have locked it, a backup or a SQLite shell for instance, or its disk does not answer: see what holds it up. What waits is written as soon as it can be",
        path.display(), waited.as_secs()
    )]
    Stuck {
        /// The store's file.
        path: PathBuf,
        /// How long the oldest of it has waited.
        waited: Duration,
    },
    /// The store was closed, by [`Store::close`](crate::Store::close) or because its last clone was dropped.
    #[error("the store is closed; open it again to go on")]
    Closed,
}

impl StorageFailure {
    /// What happened, without where: for people who use the server rather than operate it.
    pub fn reason(&self) -> &'static str {
        match self {
            StorageFailure::Full { .. } => "the store is full",
            StorageFailure::Io { .. } => "the store failed",
            StorageFailure::Changed { .. } => "the store's file was changed from outside",
            StorageFailure::Stuck { .. } => "the store takes nothing at the moment",
            StorageFailure::Closed => "the store is closed",
        }
    }

    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StorageFailure {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StorageFailure::Full { path },
            _ => StorageFailure::Io { path, reason: error.to_string() },
        }
    }
}

/// Why a run could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Another run, of another exchange, already has this `run_id`.
    #[error("there is already a run with the id {run_id}; choose another id")]
    RunIdTaken {
        /// The id that was asked for.
        run_id: String,
    },
    /// The session's first run was asked for by another principal, whose session it is.
    #[error("the session {session_id} belongs to another principal")]
    SessionOfAnother {
        /// The session that was asked for.
        session_id: String,
    },
    /// The exchange, or the request's key, names a run that retention removed (G7). It is not run again.
    #[error("{0}")]
    Removed(Box<Tombstone>),
    /// The request's key was used before, for something else.
    #[error("the key of this request was used before, for something else: the run {run_id}")]
    KeyTaken {
        /// The run that the key names.
        run_id: String,
    },
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

/// Why an exchange could not be added to a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddExchangeError {
    /// There is no such run.
    #[error("there is no such run in this store")]
    UnknownRun,
    /// The exchange, or the request's key, names a run that retention removed (G7).
    #[error("{0}")]
    Removed(Box<Tombstone>),
    /// The request's key was used before, for something else.
    #[error("the key of this request was used before, for something else: the run {run_id}")]
    KeyTaken {
        /// The run that the key names.
        run_id: String,
    },
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

/// Why a key could not be given to an exchange that was there before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such run.
    #[error("there is no such run in this store")]
    UnknownRun,
    /// The key was used before, for something else.
    #[error("the key of this request was used before, for something else: the run {run_id}")]
    Taken {
        /// The run that the key names.
        run_id: String,
    },
    /// The key names a run that retention removed (G7).
    #[error("{0}")]
    Removed(Box<Tombstone>),
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

impl From<KeyError> for AddExchangeError {
    fn from(error: KeyError) -> AddExchangeError {
        match error {
            KeyError::UnknownRun => AddExchangeError::UnknownRun,
            KeyError::Taken { run_id } => AddExchangeError::KeyTaken { run_id },
            KeyError::Removed(tombstone) => AddExchangeError::Removed(tombstone),
            KeyError::Storage(failure) => AddExchangeError::Storage(failure),
        }
    }
}

/// Why a run could not be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnershipError {
    /// There is no such run.
    #[error("there is no such run in this store")]
    UnknownRun,
    /// The run has ended; nothing can be appended to it (G6).
    #[error("the run has ended, so nothing can be appended to it")]
    Ended,
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

impl OwnershipError {
    /// What happened, without where: for people who use the server rather than operate it.
    pub fn reason(&self) -> String {
        match self {
            OwnershipError::Storage(failure) => failure.reason().to_owned(),
            error => error.to_string(),
        }
    }
}

/// Why an append was refused or lost.
///
/// When [`Appender::enqueue`](crate::Appender::enqueue) itself answers `WrongSeq` or `LineBreak`, nothing was
/// enqueued and the appender can go on. Every other error is final for the appender: what it enqueued
/// later is refused with the same error, because the log would otherwise have a hole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another owner has taken the run over. Stop working on it.
    #[error("another owner has taken this run over; stop working on it")]
    Fenced,
    /// The frames do not begin at the next `seq`, or are not consecutive.
    #[error("the next frame of this run is {expected}, but {got} was to be appended")]
    WrongSeq {
        /// The `seq` that would have been right.
        expected: u64,
        /// The `seq` that came.
        got: u64,
    },
    /// The run has ended; nothing can be appended to it (G6).
    #[error("the run has ended, so nothing can be appended to it")]
    Ended,
    /// A body contains CR or LF, which would break its SSE event apart.
    #[error("the body of frame {seq} contains a line break; encode it on one line")]
    LineBreak {
        /// The frame.
        seq: u64,
    },
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

impl AppendError {
    /// What happened, without where: for people who use the server rather than operate it.
    pub fn reason(&self) -> String {
        match self {
            AppendError::Storage(failure) => failure.reason().to_owned(),
            error => error.to_string(),
        }
    }
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such run.
    #[error("there is no such run in this store")]
    UnknownRun,
    /// The cursor is older than what retention kept (G7).
    #[error("the frames after this cursor are gone; the oldest that is left is {oldest}")]
    Gone {
        /// The oldest `seq` that can be read; `head + 1` if none can.
        oldest: u64,
    },
    /// A frame that must be there is not: the file was damaged or changed by something else.
    #[error("frame {seq} is missing from the run's log; the store is damaged, restore it from a backup")]
    Missing {
        /// The first frame that is missing.
        seq: u64,
    },
    /// The exchange, or the key, names a run that retention removed (G7). Only from
    /// [`Store::run_by_exchange`](crate::Store::run_by_exchange) and [`Store::run_by_key`](crate::Store::run_by_key).
    #[error("{0}")]
    Removed(Box<Tombstone>),
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

/// Why a run could not be followed from a cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TailError {
    /// There is no such run.
    #[error("there is no such run in this store")]
    UnknownRun,
    /// The cursor is past the head (G7): it is not a cursor of this run.
    #[error("the cursor is past the head of the run, which is {head}")]
    PastHead {
        /// The run's last `seq`; 0 if it has no frame yet.
        head: u64,
    },
    /// The cursor is older than what retention kept (G7).
    #[error("the frames after this cursor are gone; the oldest that is left is {oldest}")]
    Gone {
        /// The oldest `seq` that can be read; `head + 1` if none can.
        oldest: u64,
    },
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

/// Why runs could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// What to remove could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store failed or is closed. Some of the runs may have been removed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}

/// Why a run's oldest frames could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrimError {
    /// There is no such run.
    #[error("there is no such run in this store")]
    UnknownRun,
    /// The store failed or is closed.
    #[error(transparent)]
    Storage(#[from] StorageFailure),
}
