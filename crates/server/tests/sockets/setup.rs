//! A server as a program starts it: it serves, or nothing of it goes on.

use std::net::{Ipv4Addr, SocketAddr};

use runwire_engine::{Agent, Exchange, Failure, RunWriter};
use runwire_server::{Setup, StartError};

use crate::harness::soon;

fn setup(folder: &std::path::Path) -> Setup {
    let quiet = Agent::in_process("quiet", |_: Exchange, _: RunWriter| async { Ok::<(), Failure>(()) });
    Setup::new([quiet]).store(folder.join("runs.db")).listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

#[tokio::test]
async fn one_that_cannot_listen_lets_its_store_go() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused = soon(setup(folder.path()).listen(address).start()).await.err().unwrap();
    assert!(matches!(refused, StartError::Listen { address: of, .. } if of == address), "{refused}");
    // The store has one owner at a time.
    let server = soon(setup(folder.path()).start()).await.unwrap();
    assert_ne!(server.address().port(), 0);
    soon(server.stop()).await.unwrap();
    soon(soon(setup(folder.path()).start()).await.unwrap().stop()).await.unwrap();
}

#[tokio::test]
async fn one_that_others_could_reach_wants_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = soon(setup(folder.path()).listen(everywhere).start()).await.err().unwrap();
    assert!(matches!(refused, StartError::OpenToOthers(_)), "{refused}");
    assert!(!folder.path().join("runs.db").exists(), "nothing was opened");
}
