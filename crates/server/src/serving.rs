//! Accepting connections, and letting them go.

use axum::serve::Listener as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{App, ServerOptions};
use crate::patient_socket::PatientListener;
use crate::routes::router;

/// Serves HTTP/1.1 and HTTP/2 until `shutdown` is cancelled; then takes no more connections, ends the streams that are
/// open between frames, and returns when every connection is gone, but after
/// [`ServerOptions::shutdown_grace`](crate::ServerOptions) at the latest: a peer that takes nothing cannot hold the
/// server up.
pub async fn serve(listener: TcpListener, app: App, shutdown: CancellationToken) {
    let options = app.options().clone();
    let closing = app.inner.closing.clone();
    let connections = app.inner.connections.clone();
    let mut listener = PatientListener::new(listener, options.gone_after, options.request_patience);
    let builder = protocols(&options);
    let graceful = GracefulShutdown::new();
    let service = TowerToHyperService::new(router(app));
    loop {
        let socket = tokio::select! {
            (socket, _) = listener.accept() => socket,
            () = shutdown.cancelled() => break,
        };
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(socket), service.clone()).into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended badly");
            }
        });
    }
    drop(listener);
    closing.cancel();
    connections.close();
    let gone = async {
        graceful.shutdown().await;
        connections.wait().await;
    };
    if tokio::time::timeout(options.shutdown_grace, gone).await.is_err() {
        tracing::warn!("connections were left open: their peers did not take what was sent to them");
    }
}

/// A connection costs something for as long as it is there, so one on which no request comes is not kept.
fn protocols(options: &ServerOptions) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(options.request_patience);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(options.keep_alive)
        .keep_alive_timeout(options.gone_after);
    builder
}
