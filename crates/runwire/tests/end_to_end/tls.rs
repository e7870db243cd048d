//! A server behind TLS, with a certificate that only whoever is told of it trusts: the client's own connections, over HTTP and
//! over a WebSocket.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::program::{Done, command, finish};
use crate::serving::{AGENTS, Serving};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/tls").join(name)
}

/// What ends TLS in front of a server. It stops with the test that started it.
struct Terminator {
    url: String,
    accepting: JoinHandle<()>,
}

impl Drop for Terminator {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Terminator {
    async fn start(server: &Serving) -> Terminator {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server: SocketAddr = server.url().strip_prefix("http://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    // A client that does not trust the certificate leaves here.
                    let Ok(mut client) = acceptor.accept(socket).await else { return };
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Terminator { url, accepting }
    }
}

/// The binary, which trusts the authority of the test and no other.
async fn trusting(folder: &Path, args: &[&str]) -> Done {
    finish(command(folder).env("SSL_CERT_FILE", file("ca.pem")).env_remove("SSL_CERT_DIR").args(args), args).await
}

#[tokio::test]
async fn a_run_is_created_and_read_over_tls_in_every_way_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let tls = Terminator::start(&server).await;
    let server_is = ["--server", &tls.url];
    for transport in ["sse", "ws"] {
        let run = ["run", "demo", "How long is this?", "--json", "--transport", transport];
        let done = trusting(folder.path(), &[&run[..], &server_is].concat()).await.exits(0);
        let seen: Vec<&str> = done.stdout.lines().collect();
        let run_id = done.json_lines()[0]["run_id"].as_str().unwrap().to_owned();
        assert_eq!(seen, server.log_of(&run_id).await, "{transport}: byte for byte (G3)");
        let tail = ["tail", &run_id, "--json", "--transport", transport];
        let again = trusting(folder.path(), &[&tail[..], &server_is].concat()).await.exits(0);
        assert_eq!(again.stdout, done.stdout, "{transport}");
        let agui = ["tail", &run_id, "--json", "--protocol", "agui"];
        let events = trusting(folder.path(), &[&agui[..], &server_is].concat()).await.exits(0);
        assert_eq!(events.json_lines().last().unwrap()["type"], "RUN_FINISHED", "{transport}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let tls = Terminator::start(&server).await;
    let args = ["runs", "--server", &tls.url];
    finish(command(folder.path()).env_remove("SSL_CERT_FILE").args(args), &args).await.could_not(&["certificate"]);
}
