//! An agent in Rust, served over HTTP: `cargo run -p runwire-server --example in-process`, then
//! `runwire run greeter "Ada"`. An address as its argument, such as 127.0.0.1:0, is listened on instead of the usual one.

use runwire_engine::{Agent, Ending, Exchange, Failure, Opening, RunWriter};
use runwire_server::Setup;

async fn greet(exchange: Exchange, run: RunWriter) -> Result<(), Failure> {
    let message = run.message(Opening::named("assistant")).await?;
    for word in ["Good ", "day, ", &exchange.prompt(), "!"] {
        message.text(word).await?;
    }
    message.end(Ending::completed()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7171".to_owned());
    let agent = Agent::in_process("greeter", greet);
    let server = Setup::new([agent]).listen(listen.parse::<std::net::SocketAddr>()?).start().await?;
    println!("serving http://{}", server.address());
    tokio::signal::ctrl_c().await?;
    Ok(server.stop().await?)
}
