//! Pictures that tools show to the model: as large as providers take them, smaller where they are
//! larger, and refused in words where they cannot be shown at all.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use vestal_model::Image;

/// Bytes that providers take: 5 MiB as base64.
const MOST_BYTES: usize = (5 << 20) / 4 * 3;

/// Pixels of a side that providers take.
const LONGEST_SIDE: u32 = 8000;

/// Pixels of the longer side of a picture that was made smaller. Providers reduce larger ones
/// themselves.
const REDUCED_SIDE: u32 = 2000;

/// Characters of base64 that are taken.
const MOST_BASE64: usize = 32 << 20;

/// Memory that a picture may take while it is made smaller.
const MOST_MEMORY: u64 = 512 << 20;

/// Quality of a picture that is still too large.
const QUALITY: u8 = 80;

/// A picture that the model is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPicture {
    /// The picture.
    pub image: Image,
    /// Its size in pixels as it is shown.
    pub size: (u32, u32),
    /// Its size in pixels as it was, if it was made smaller.
    pub was: Option<(u32, u32)>,
}

impl ShownPicture {
    /// Says how large it is, and was.
    pub fn about(&self) -> String {
        let (width, height) = self.size;
        let kind = &self.image.media_type;
        match self.was {
            None => format!("{kind}, {width}x{height}"),
            Some((before, high)) => {
                format!("{kind}, {width}x{height}, made smaller from {before}x{high}")
            }
        }
    }
}

/// Returns a picture as models take it, or says in words why it cannot be shown.
pub async fn shown_picture(bytes: Vec<u8>) -> Result<ShownPicture, String> {
    // Decoding takes a while, and a picture may be made to take longer.
    let shown = tokio::task::spawn_blocking(move || show(bytes)).await;
    shown.unwrap_or_else(|_| Err("the picture cannot be read".to_owned()))
}

/// Returns a picture in base64 as models take it, or says in words why it cannot be shown.
pub async fn shown_base64(base64: &str) -> Result<ShownPicture, String> {
    if base64.len() > MOST_BASE64 {
        return Err("it is larger than 32 MiB".to_owned());
    }
    let bytes = STANDARD.decode(base64.trim()).map_err(|_| "it is not base64".to_owned())?;
    shown_picture(bytes).await
}

fn show(bytes: Vec<u8>) -> Result<ShownPicture, String> {
    let Some(image) = Image::from_bytes(&bytes) else {
        return Err("it is no picture that models take (PNG, JPEG, GIF or WebP)".to_owned());
    };
    let reader = ImageReader::new(Cursor::new(&bytes)).with_guessed_format();
    let reader = reader.map_err(|error| unreadable(&error))?;
    let format = reader.format();
    let size = reader.into_dimensions().map_err(|error| unreadable(&error))?;
    let (width, height) = size;
    if width == 0 || height == 0 {
        return Err("the picture is empty".to_owned());
    }
    if bytes.len() <= MOST_BYTES && width <= LONGEST_SIDE && height <= LONGEST_SIDE {
        return Ok(ShownPicture { image, size, was: None });
    }
    drop(image);
    let mut reader = ImageReader::new(Cursor::new(&bytes));
    if let Some(format) = format {
        reader.set_format(format);
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let decoded = reader.decode().map_err(|error| {
        format!(
            "the picture ({width}x{height}, {} bytes) is too large to be shown: {error}",
            bytes.len()
        )
    })?;
    drop(bytes);
    reduced(&decoded, size)
}

/// Returns a picture that is small enough.
fn reduced(decoded: &DynamicImage, was: (u32, u32)) -> Result<ShownPicture, String> {
    let smaller = if was.0.max(was.1) > REDUCED_SIDE {
        decoded.resize(REDUCED_SIDE, REDUCED_SIDE, FilterType::Triangle)
    } else {
        decoded.clone()
    };
    let size = (smaller.width(), smaller.height());
    let shown = |bytes: &[u8]| {
        let image = Image::from_bytes(bytes)?;
        (bytes.len() <= MOST_BYTES).then_some(ShownPicture { image, size, was: Some(was) })
    };
    let mut png = Vec::new();
    let written = smaller.write_to(&mut Cursor::new(&mut png), ImageFormat::Png);
    if let Some(picture) = written.ok().and_then(|()| shown(&png)) {
        return Ok(picture);
    }
    let mut jpeg = Vec::new();
    let written =
        smaller.to_rgb8().write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, QUALITY));
    written
        .ok()
        .and_then(|()| shown(&jpeg))
        .ok_or_else(|| format!("the picture ({}x{}) is too large to be shown", was.0, was.1))
}

fn unreadable(error: &dyn std::error::Error) -> String {
    format!("the picture cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        // Noise does not compress.
        let mut state = 1_u32;
        let noise = image::RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [red, green, blue, _] = state.to_be_bytes();
            image::Rgb([red, green, blue])
        });
        let mut bytes = Vec::new();
        noise.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    #[tokio::test]
    async fn a_picture_that_fits_is_shown_as_it_is() {
        let bytes = png(20, 10);
        let shown = shown_picture(bytes.clone()).await.unwrap();
        assert_eq!(shown.image, Image::from_bytes(&bytes).unwrap());
        assert_eq!(shown.about(), "image/png, 20x10");
    }

    #[tokio::test]
    async fn a_picture_that_is_too_large_is_made_smaller() {
        for (width, height) in [(9000, 3), (2400, 1800)] {
            let shown = shown_picture(png(width, height)).await.unwrap();
            assert_eq!(shown.was, Some((width, height)));
            assert!(shown.size.0 <= REDUCED_SIDE && shown.size.1 >= 1, "{:?}", shown.size);
            assert!(shown.image.data.len() <= 5 << 20);
        }
    }

    #[tokio::test]
    async fn what_is_no_picture_is_refused_in_words() {
        let cut = png(20, 10)[..20].to_vec();
        for bytes in [b"%PDF-1.7".to_vec(), Vec::new(), cut, b"\x89PNG\r\n\x1a\n".to_vec()] {
            assert!(shown_picture(bytes).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_picture_that_claims_to_be_huge_takes_no_memory() {
        // A header of 60000 x 60000 pixels, and no data.
        let mut bytes = png(1, 1);
        bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
        assert!(shown_picture(bytes).await.is_err());
    }
}
