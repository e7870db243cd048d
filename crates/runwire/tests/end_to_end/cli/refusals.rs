//! `runwire serve` where it cannot serve: it says why, does not start, and changes nothing.

use std::path::Path;

use crate::program::{Done, run};
use crate::serving::{AGENTS, Serving};

async fn serve(folder: &Path, more: &[&str]) -> Done {
    run(folder, &[&["serve", "--listen", "127.0.0.1:0"], more].concat()).await
}

#[tokio::test]
async fn a_configuration_that_cannot_be_meant_is_refused_with_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runwire.toml");
    for (config, words) in [
        ("lisen = \"127.0.0.1:0\"", &["runwire.toml", "`lisen`", "`listen`"][..]),
        ("[agents.a]\ndriver = \"demo\"\npaec = \"1s\"", &["agents.a.paec", "`pace`"]),
        ("[agents.a]\ndriver = \"agiu\"", &["agiu", "`agui`"]),
        ("[agents.a]\ndriver = \"agui\"", &["agents.a", "`url` is missing"]),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"here\"", &["agents.a", "here"]),
        ("cancel_grace = \"soon\"", &["soon"]),
        ("agents = [", &["runwire.toml"]),
        ("listen = \"0.0.0.0:0\"", &["0.0.0.0:0"]),
    ] {
        std::fs::write(&file, config).unwrap();
        // The last case is about the file's address, which a flag would hide.
        let args = ["serve", "--config", "runwire.toml"];
        if config.starts_with("listen") {
            run(folder.path(), &args).await.could_not(&["tokens"]);
        } else {
            serve(folder.path(), &args[1..]).await.could_not(words);
        }
    }
    serve(folder.path(), &["--config", "absent.toml"]).await.could_not(&["absent.toml"]);
    assert!(!folder.path().join("runwire.db").exists(), "a server that is refused leaves nothing behind");
}

#[tokio::test]
async fn a_store_that_another_server_has_is_refused_and_that_server_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    serve(folder.path(), &[]).await.could_not(&["runwire.db", "in use by another process"]);
    let demo = run(folder.path(), &["demo", "--once", "--listen", "127.0.0.1:0"]).await;
    demo.could_not(&["runwire.db", "in use by another process"]);
    let args = ["run", "demo", "Still there?", "--server", server.url()];
    run(folder.path(), &args).await.exits(0);
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "These are my notes, and no store. ".repeat(100)).unwrap();
    let foreign = folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    for (file, words) in [(&notes, "not a store"), (&foreign, "not a Runwire store")] {
        let before = std::fs::read(file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        serve(folder.path(), &["--store", name]).await.could_not(&[name, words]);
        assert_eq!(std::fs::read(file).unwrap(), before, "{name}");
    }
}

#[tokio::test]
async fn a_store_of_a_newer_runwire_is_refused_and_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Serving::start(folder.path(), AGENTS).await;
    server.terminate().await;
    server.ended().await;
    let file = folder.path().join("runwire.db");
    let store = rusqlite::Connection::open(&file).unwrap();
    store.execute_batch("UPDATE meta SET schema_version = 1000; PRAGMA journal_mode = DELETE").unwrap();
    drop(store);
    let before = std::fs::read(&file).unwrap();
    serve(folder.path(), &[]).await.could_not(&["runwire.db", "version 1000", "newer Runwire"]);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_path_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["absent/runwire.db", "."] {
        serve(folder.path(), &["--store", path]).await.could_not(&[path, "cannot be written"]);
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    run(folder.path(), &["serve", "--listen", &address]).await.could_not(&[&address, "cannot be listened on"]);
}
