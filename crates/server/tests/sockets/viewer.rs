//! The viewer's files: who gets them, with which headers, and that none of those which a page needs is missing.

use std::collections::BTreeSet;
use std::path::Path;

use reqwest::{Response, Url};
use serde_json::Value;

use crate::harness::{Server, Setup, problem, soon};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = headers.iter().fold(server.get(path), |request, (name, value)| request.header(*name, *value));
    soon(request.send()).await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("no {name} on {}", response.url())).to_str().unwrap()
}

/// Checks what every file of the viewer comes with.
#[track_caller]
fn is_guarded(response: &Response) {
    assert_eq!(response.status(), 200, "{}", response.url());
    assert_eq!(header(response, "cache-control"), "no-cache");
    assert_eq!(header(response, "x-content-type-options"), "nosniff");
    assert_eq!(header(response, "referrer-policy"), "no-referrer");
    let policy: BTreeSet<&str> = header(response, "content-security-policy").split("; ").collect();
    let wanted = [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ];
    assert_eq!(policy, BTreeSet::from(wanted));
    let etag = header(response, "etag");
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag} is no strong tag");
}

#[tokio::test]
async fn a_browser_gets_the_viewer_at_the_root_and_a_program_what_the_server_is() {
    let server = Setup::new().start().await;
    for accept in [BROWSER, "text/html", "TEXT/HTML", "application/json;q=0.5, text/html", "text/html;q=0.1, */*"] {
        let response = get(&server, "/", &[("accept", accept)]).await;
        assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8", "{accept}");
        assert!(header(&response, "vary").contains("accept"), "{accept}");
        is_guarded(&response);
    }
    for accept in ["*/*", "application/json", "text/*", "text/html;q=0", "application/json, text/html;q=0.9", ""] {
        let response = get(&server, "/", &[("accept", accept)]).await;
        assert!(header(&response, "vary").contains("accept"), "{accept}");
        assert_eq!(header(&response, "content-type"), "application/json", "{accept}");
        let about: Value = response.json().await.unwrap();
        assert_eq!(about["name"], "runwire", "{accept}");
    }
    let without =
        soon(reqwest::Client::builder().no_proxy().build().unwrap().get(server.url("/")).send()).await.unwrap();
    assert_eq!(header(&without, "content-type"), "application/json");
}

#[tokio::test]
async fn every_address_that_a_person_may_open_is_the_same_page_also_without_a_token() {
    let server = Setup::new().token("alice").start().await;
    let root = get(&server, "/", &[("accept", BROWSER)]).await;
    let etag = header(&root, "etag").to_owned();
    for path in ["/runs/run_1", "/runs/run_1/frames", "/chat", "/chat/demo/a%2Fb", "/runs/run_1?row=seg_2"] {
        let response = get(&server, path, &[("accept", BROWSER)]).await;
        is_guarded(&response);
        assert_eq!(header(&response, "etag"), etag, "{path}");
    }
    // The data behind it is another matter.
    assert_eq!(problem(get(&server, "/v2/runs", &[("accept", "application/json")]).await).await["status"], 401);
}

#[tokio::test]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let server = Setup::new().start().await;
    let path = "/viewer/app.js";
    let etag = header(&get(&server, path, &[]).await, "etag").to_owned();
    let weak = format!("W/{etag}");
    let several = format!("\"another\", {etag}");
    for known in [etag.as_str(), &weak, &several, "*"] {
        let response = get(&server, path, &[("if-none-match", known)]).await;
        assert_eq!(response.status(), 304, "{known}");
        assert_eq!(header(&response, "etag"), etag);
        assert_eq!(header(&response, "cache-control"), "no-cache");
        assert_eq!(response.text().await.unwrap(), "");
    }
    let other = get(&server, path, &[("if-none-match", "\"another\"")]).await;
    is_guarded(&other);
    let style = get(&server, "/viewer/style.css", &[]).await;
    assert_ne!(header(&style, "etag"), etag, "two files have two tags");
}

#[tokio::test]
async fn what_is_no_file_of_the_viewer_is_not_found() {
    let server = Setup::new().start().await;
    for path in ["/viewer/none.js", "/viewer/", "/viewer/..%2Fsrc%2Flib.rs", "/viewer/pages", "/viewer/APP.JS"] {
        assert_eq!(problem(get(&server, path, &[]).await).await["status"], 404, "{path}");
    }
}

/// What a file of the viewer asks for: the addresses that its text names.
fn named_in(address: &Url, text: &str) -> Vec<Url> {
    let mut named = Vec::new();
    for (before, after) in
        [(" from \"", "\""), ("import(\"", "\""), ("href=\"", "\""), ("src=\"", "\""), ("src: \"", "\"")]
    {
        for rest in text.split(before).skip(1) {
            let name = rest.split(after).next().unwrap();
            // Types are named in comments, for editors.
            if (name.starts_with('.') || name.starts_with("/viewer/")) && !name.ends_with(".d.ts") {
                named.push(address.join(name).unwrap());
            }
        }
    }
    named
}

#[tokio::test]
async fn every_file_that_a_page_reaches_is_served_and_every_file_there_is_is_reached() {
    let server = Setup::new().start().await;
    let root = Url::parse(&server.url("/")).unwrap();
    let mut known = BTreeSet::from([root.join("/viewer/index.html").unwrap()]);
    let mut to_read: Vec<Url> = known.iter().cloned().collect();
    while let Some(address) = to_read.pop() {
        let response = get(&server, address.path(), &[]).await;
        is_guarded(&response);
        let wanted = match address.path().rsplit('.').next().unwrap() {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{address} is a {other}"),
        };
        assert_eq!(header(&response, "content-type"), wanted, "{address}");
        let text = response.text().await.unwrap();
        for named in named_in(&address, &text) {
            if known.insert(named.clone()) {
                to_read.push(named);
            }
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer");
    let mut there = files_in(&folder, &folder);
    there.insert("runwire.js".to_owned());
    let reached: BTreeSet<String> = known.iter().map(|a| a.path().trim_start_matches("/viewer/").to_owned()).collect();
    assert_eq!(reached, there);
}

fn files_in(folder: &Path, root: &Path) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_in(&path, root));
        } else {
            files.insert(path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/"));
        }
    }
    files
}

#[test]
fn no_file_of_the_viewer_makes_markup_of_text_or_needs_a_laxer_policy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer");
    // Each would be a way for text to become live, or be stopped by the policy.
    let never = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "setHTML",
        "eval(",
        "new Function",
        "srcdoc=",
        "javascript:",
        "style=\"",
        "onclick=",
        "onload=",
        "http-equiv",
        "<style",
    ];
    for file in files_in(&folder, &folder) {
        let text = std::fs::read_to_string(folder.join(&file)).unwrap();
        for word in never {
            assert!(!text.contains(word), "{file} has `{word}`");
        }
        for script in text.split("<script").skip(1).filter(|_| file.ends_with(".html")) {
            let script = script.split("</script>").next().unwrap();
            assert!(script.contains("src=\"/viewer/") && script.trim_end().ends_with('>'), "{file}: an inline script");
        }
    }
}
