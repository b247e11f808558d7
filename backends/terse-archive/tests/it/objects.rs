//! Objects in a folder and on a real S3 server.

use bytes::Bytes;
use terse_archive::{Storage, StorageError, StorageUrl, Written};
use terse_testkit::S3Server;

use crate::support::{folder, s3, s3_options};

async fn check_objects(storage: Storage) {
    let content = |text: &'static str| Bytes::from_static(text.as_bytes());
    assert_eq!(storage.head("a/one").await.unwrap(), None);
    assert_eq!(storage.put("a/one", content("first")).await.unwrap(), Written::Created);
    assert_eq!(storage.put("a/b/two", content("x")).await.unwrap(), Written::Created);
    assert_eq!(storage.put("c/three", content("x")).await.unwrap(), Written::Created);
    assert_eq!(storage.put("a/one", content("first")).await.unwrap(), Written::Same);
    assert_eq!(storage.put("a/one", content("other")).await.unwrap(), Written::Replaced);
    assert_eq!(storage.get("a/one").await.unwrap(), content("other"));
    assert_eq!(storage.get_range("a/one", 1..3).await.unwrap(), content("th"));
    let names = |objects: Vec<terse_archive::StoredObject>| {
        objects.into_iter().map(|object| object.name).collect::<Vec<_>>()
    };
    assert_eq!(names(storage.list("a").await.unwrap()), ["a/b/two", "a/one"]);
    assert_eq!(names(storage.list("").await.unwrap()), ["a/b/two", "a/one", "c/three"]);
    assert_eq!(storage.folders("").await.unwrap(), ["a", "c"]);
    assert_eq!(storage.folders("a").await.unwrap(), ["b"]);
    storage.delete("a/one").await.unwrap();
    storage.delete("a/one").await.unwrap();
    assert!(matches!(storage.get("a/one").await, Err(StorageError::Missing(_))));
    storage.check().await.unwrap();
    assert_eq!(storage.list("").await.unwrap().len(), 2, "a check leaves nothing behind");
}

async fn check_large_files(storage: Storage) {
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n >> 3) as u8 ^ (n >> 17) as u8).collect();
    std::fs::write(&from, &content).unwrap();
    storage.upload(&from, "backups/large").await.unwrap();
    storage.download("backups/large", &to).await.unwrap();
    assert!(std::fs::read(&to).unwrap() == content);
    std::fs::write(&from, "").unwrap();
    storage.upload(&from, "backups/empty").await.unwrap();
    storage.download("backups/empty", &temp.path().join("empty")).await.unwrap();
    assert_eq!(storage.head("backups/empty").await.unwrap().unwrap().size, 0);
    let taken = storage.download("backups/large", &to).await;
    assert!(matches!(taken, Err(StorageError::File { .. })), "an existing file stays");
}

#[tokio::test]
async fn a_folder_holds_objects() {
    let temp = tempfile::tempdir().unwrap();
    check_objects(folder(&temp)).await;
}

#[tokio::test]
async fn a_bucket_holds_objects() {
    check_objects(s3()).await;
}

#[tokio::test]
async fn a_large_file_goes_to_a_folder_and_back() {
    let temp = tempfile::tempdir().unwrap();
    check_large_files(folder(&temp)).await;
}

#[tokio::test]
async fn a_large_file_goes_to_a_bucket_and_back_in_parts() {
    check_large_files(s3()).await;
}

#[tokio::test]
async fn a_wrong_secret_is_refused_and_not_shown() {
    let url = StorageUrl::parse(&format!("s3://{}", S3Server::shared().bucket())).unwrap();
    let storage = Storage::open(&url, &s3_options(S3Server::shared(), "another secret")).unwrap();
    let error = storage.check().await.unwrap_err().to_string();
    assert!(error.contains("SignatureDoesNotMatch"), "{error}");
    assert!(error.contains("s3://bucket-") && !error.contains("another secret"), "{error}");
}

#[tokio::test]
async fn a_bucket_that_does_not_exist_is_an_error() {
    let url = StorageUrl::parse("s3://no-such-bucket").unwrap();
    let options = s3_options(S3Server::shared(), S3Server::SECRET_ACCESS_KEY);
    let storage = Storage::open(&url, &options).unwrap();
    let error = storage.check().await.unwrap_err().to_string();
    assert!(error.contains("no-such-bucket"), "{error}");
}
