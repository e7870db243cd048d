//! Ctrl-C and SIGTERM.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves when the process is asked to stop.
///
/// A second request ends the process at once: what is in the store is safe, whatever is still under way.
pub async fn stop_requested() {
    let first = next_request();
    first.await;
    tokio::spawn(async {
        next_request().await;
        eprintln!("runwire: stopped at once");
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
