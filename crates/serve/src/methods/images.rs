//! Pictures that go with a prompt.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_model::Image;

use super::MethodCall;
use crate::error::{self, RpcError};

/// Pictures that one prompt may have.
const MOST_IMAGES: usize = 16;

/// Bytes that the pictures of one prompt may have together.
const MOST_BYTES: u64 = Image::MOST_BYTES;

/// A picture in a request.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ImageInput {
    /// A PNG, JPEG, GIF or WebP in base64, or as a `data:` URL. Its content tells which.
    data: String,
}

impl ImageInput {
    /// Returns the picture. Nothing is fetched on a client's word, and the kind is not taken on it.
    pub(super) fn read(&self) -> Result<Image, RpcError> {
        let data = match self.data.strip_prefix("data:") {
            Some(rest) => rest.split_once(";base64,").map(|(_, data)| data),
            None => Some(self.data.as_str()),
        };
        let bytes = data.and_then(|data| STANDARD.decode(data.trim()).ok());
        let bytes = bytes.ok_or_else(|| {
            RpcError::new(error::BAD_VALUE, "a picture is not base64").advise(
                "send the bytes of the file in base64, with padding and without line breaks",
            )
        })?;
        picture(&bytes)
    }
}

fn picture(bytes: &[u8]) -> Result<Image, RpcError> {
    Image::from_bytes(bytes).ok_or_else(|| {
        RpcError::new(error::BAD_VALUE, "not a picture that models read")
            .advise("PNG, JPEG, GIF and WebP are read")
    })
}

/// Refuses more pictures than a prompt may have.
pub(super) fn check_room(images: &[Image]) -> Result<(), RpcError> {
    let bytes: u64 = images.iter().map(size).sum();
    if images.len() > MOST_IMAGES || bytes > MOST_BYTES {
        let message = format!(
            "a prompt has at most {MOST_IMAGES} pictures of {} MiB together",
            MOST_BYTES >> 20
        );
        return Err(RpcError::new(error::BAD_VALUE, message)
            .advise("send smaller ones, or fewer; image.detach takes attached ones back"));
    }
    Ok(())
}

/// Returns how many bytes a picture has.
fn size(image: &Image) -> u64 {
    let padding = image.data.bytes().rev().take_while(|byte| *byte == b'=').count();
    (image.data.len() / 4 * 3).saturating_sub(padding) as u64
}

/// A picture to be sent with the next prompt.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AttachParams {
    /// The live session.
    session_id: String,
    /// The picture in base64, or as a `data:` URL.
    #[serde(default)]
    data: Option<String>,
    /// A file on the machine of the server, instead; absolute. Over a network it is refused.
    #[serde(default)]
    path: Option<PathBuf>,
}

/// A picture that is sent with the next prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AttachResult {
    /// What it is, such as `image/png`.
    media_type: String,
    /// How large it is.
    bytes: u64,
    /// How many pictures go with the next prompt now.
    images: usize,
}

pub(super) async fn attach(
    call: MethodCall,
    params: AttachParams,
) -> Result<AttachResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let image = match (params.data, params.path) {
        (Some(data), None) => ImageInput { data }.read()?,
        (None, Some(path)) => {
            call.server.clients().check_host_path(&path, "send the picture itself: data")?;
            let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
            read.map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))??
        }
        _ => return Err(RpcError::new(error::BAD_VALUE, "give either data or path")),
    };
    let (media_type, bytes) = (image.media_type.clone(), size(&image));
    let images = session.with_pictures(|pictures| {
        pictures.push(image);
        let room = check_room(pictures);
        if room.is_err() {
            pictures.pop();
        }
        room.map(|()| pictures.len())
    })?;
    Ok(AttachResult { media_type, bytes, images })
}

fn read_file(path: &Path) -> Result<Image, RpcError> {
    let name = path.display();
    let bad = |why: &str| RpcError::new(error::BAD_VALUE, format!("{name} {why}"));
    let unreadable = |error: std::io::Error| bad(&format!("cannot be read: {error}"));
    if !path.is_absolute() {
        return Err(bad("is not an absolute path"));
    }
    // Before it is opened: opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(bad("is not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(bad(&format!("is larger than {} MiB", MOST_BYTES >> 20)));
    }
    picture(&bytes)
}

/// Pictures to be taken back.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct DetachParams {
    /// The live session.
    session_id: String,
    /// Which one, from 0; all without it.
    #[serde(default)]
    index: Option<usize>,
}

/// What is left.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DetachResult {
    /// How many pictures go with the next prompt now.
    images: usize,
}

pub(super) async fn detach(
    call: MethodCall,
    params: DetachParams,
) -> Result<DetachResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    session.with_pictures(|pictures| match params.index {
        None => {
            pictures.clear();
            Ok(DetachResult { images: 0 })
        }
        Some(index) if index < pictures.len() => {
            pictures.remove(index);
            Ok(DetachResult { images: pictures.len() })
        }
        Some(index) => {
            let message = format!("no picture {index} is attached");
            Err(RpcError::new(error::STALE, message))
        }
    })
}
