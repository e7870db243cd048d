//! Ctrl-C and SIGTERM; and SIGXFSZ, which is no reason to end.

use std::io::Write as _;

use tokio::signal::unix::{SignalKind, signal};

/// SIGXFSZ, as it is numbered on Linux, macOS and the BSDs. Where 25 is another signal (SIGCONT on MIPS), taking it changes
/// nothing.
const FILE_SIZE_EXCEEDED: i32 = 25;

/// Makes a write beyond the largest file that the process may make (`ulimit -f`) an error as on a full disk, which the store
/// knows what to do with. Left alone the system would end the process, and all runs with it.
///
/// Has to be called within the runtime; holds for as long as the process lives.
pub fn survive_file_size_limit() {
    // Once there was a handler, the default action does not come back, though nobody listens.
    if let Err(error) = signal(SignalKind::from_raw(FILE_SIZE_EXCEEDED)) {
        tracing::warn!(%error, "a file that grows to the limit of the process (`ulimit -f`) will end the server");
    }
}

/// Resolves when the process is asked to stop.
///
/// A second request ends the process at once: what is in the store is safe, whatever is still under way.
pub async fn stop_requested() {
    let first = next_request();
    first.await;
    tokio::spawn(async {
        next_request().await;
        // Printing would panic, and not exit, where standard error cannot be written.
        let _ = writeln!(std::io::stderr(), "runwire: stopped at once");
        std::process::exit(130);
    });
}

async fn next_request() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Without signal handlers the default action ends the process, which is what was asked for.
        _ => std::future::pending().await,
    }
}
