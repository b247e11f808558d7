//! The URL of a place for objects: `s3://bucket/prefix` or `file:///folder`.

use std::fmt;
use std::path::PathBuf;

use url::Url;

/// Where objects are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StorageUrl {
    /// A bucket on S3 or a server that speaks its protocol, and the beginning of all names in it.
    S3 {
        /// The bucket.
        bucket: String,
        /// Without a slash at either end; may be empty.
        prefix: String,
    },
    /// A folder.
    Folder(PathBuf),
}

/// Why a text is not the URL of a place for objects.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be s3://bucket/prefix or file:///folder ({0})")]
pub struct StorageUrlError(&'static str);

impl StorageUrl {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, StorageUrlError> {
        let url = Url::parse(text).map_err(|_| StorageUrlError("this is not a URL"))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(StorageUrlError("it has no `?` and no `#`; the settings `s3.*` have more"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(StorageUrlError("keys belong into the settings `s3.*`"));
        }
        match url.scheme() {
            "s3" => {
                let bucket = url.host_str().filter(|host| !host.is_empty());
                let bucket = bucket.ok_or(StorageUrlError("the bucket is missing"))?;
                let allowed = |byte: u8| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte)
                };
                if !bucket.bytes().all(allowed) || url.port().is_some() {
                    let why = "a bucket has lower-case letters, digits, `-`, `.` and `_`; the \
                               address of a server belongs into `s3.endpoint`";
                    return Err(StorageUrlError(why));
                }
                let prefix = url.path().trim_matches('/');
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._=/".contains(&byte);
                let is_plain = prefix.bytes().all(plain)
                    && prefix.split('/').all(|part| !matches!(part, "." | ".."));
                if !is_plain || prefix.contains("//") {
                    let why = "a prefix has letters, digits, `-`, `.`, `_`, `=` and single `/`";
                    return Err(StorageUrlError(why));
                }
                Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
            }
            "file" => {
                let path = url.to_file_path();
                let path = path.map_err(|()| StorageUrlError("the folder is not absolute"))?;
                if path.parent().is_none() {
                    return Err(StorageUrlError("the folder is missing"));
                }
                Ok(Self::Folder(path))
            }
            _ => Err(StorageUrlError("the scheme is neither `s3` nor `file`")),
        }
    }
}

impl fmt::Display for StorageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Folder(path) => write!(f, "file://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_folders_are_read() {
        let s3 = |bucket: &str, prefix: &str| StorageUrl::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (text, url) in [
            ("s3://clicks", s3("clicks", "")),
            ("s3://clicks/", s3("clicks", "")),
            ("s3://my.bucket/terse/eu-1/", s3("my.bucket", "terse/eu-1")),
            ("file:///var/lib/terse", StorageUrl::Folder("/var/lib/terse".into())),
            ("file:///with%20space/", StorageUrl::Folder("/with space/".into())),
        ] {
            assert_eq!(StorageUrl::parse(text).as_ref(), Ok(&url), "{text}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "not a URL"),
            ("/var/lib", "not a URL"),
            ("https://bucket/x", "neither"),
            ("s3://", "bucket is missing"),
            ("s3://Bucket", "lower-case"),
            ("s3://bucket:9000/x", "s3.endpoint"),
            ("s3://key:secret@bucket/x", "keys belong"),
            ("s3://bucket/a?region=x", "s3.*"),
            ("s3://bucket/a b", "single `/`"),
            ("s3://bucket/a//b", "single `/`"),
            ("file://host/x", "not absolute"),
            ("file:///", "folder is missing"),
        ] {
            let error = StorageUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
