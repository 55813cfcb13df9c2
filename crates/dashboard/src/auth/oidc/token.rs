//! What a provider says of a person: a signed token, believed only where all of it is right.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// The longest token that is looked at.
const MAX_TOKEN: usize = 64 << 10;

/// How far the clocks of two machines may be apart, in seconds.
const SKEW: i64 = 60;

/// How old a token may be that was made for a login of now, in seconds.
const MAX_AGE: i64 = 600;

/// The longest subject that `OpenID` Connect allows.
const MAX_SUBJECT: usize = 255;

/// What is wrong with a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("it is not a signed token")]
    Malformed,
    #[error("it is signed by {0:?}, which is not accepted here")]
    Algorithm(String),
    #[error("no key of the provider has made its signature")]
    Key,
    #[error("its signature is wrong")]
    Signature,
    #[error("it was made by {0:?}")]
    Issuer(String),
    #[error("it was issued for another client than this dashboard")]
    Audience,
    #[error("it was made for another login")]
    Nonce,
    #[error("it is too old")]
    Expired,
    #[error("it is of the future; do the clocks agree?")]
    Future,
    #[error("it names nobody")]
    Subject,
}

/// The keys that a provider publishes.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct KeySet {
    keys: Vec<PublicKey>,
}

/// One of them, as RFC 7517 writes it. A key of a kind that is not known here has none of the members.
#[derive(Debug, Clone, Default, Deserialize)]
struct PublicKey {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default, rename = "use")]
    purpose: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

/// The ways of signing that are accepted. None of them needs a shared secret, so that nobody who knows a
/// public key can sign with it, and `none` is none of them.
enum Algorithm {
    Rsa(&'static RsaParameters),
    /// Over the curve of this name.
    Curve(&'static str, &'static EcdsaVerificationAlgorithm),
    Ed25519,
}

impl Algorithm {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Curve("P-256", &signature::ECDSA_P256_SHA256_FIXED),
            "ES384" => Self::Curve("P-384", &signature::ECDSA_P384_SHA384_FIXED),
            "EdDSA" => Self::Ed25519,
            _ => return None,
        })
    }

    /// Checks a signature; nothing where the key is not one for this.
    fn verify(&self, key: &PublicKey, message: &[u8], signature: &[u8]) -> Option<bool> {
        let bytes = |member: &Option<String>| {
            member.as_deref().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        };
        let verified = match self {
            Self::Rsa(parameters) => {
                if key.kty != "RSA" {
                    return None;
                }
                let (n, e) = (bytes(&key.n)?, bytes(&key.e)?);
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            Self::Curve(name, algorithm) => {
                if key.kty != "EC" || key.crv.as_deref() != Some(*name) {
                    return None;
                }
                // The uncompressed form of a point.
                let point = [vec![4], bytes(&key.x)?, bytes(&key.y)?].concat();
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature)
            }
            Self::Ed25519 => {
                if key.kty != "OKP" || key.crv.as_deref() != Some("Ed25519") {
                    return None;
                }
                UnparsedPublicKey::new(&signature::ED25519, bytes(&key.x)?)
                    .verify(message, signature)
            }
        };
        Some(verified.is_ok())
    }
}

/// What has to be so of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenRequirements<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    /// Now, in seconds.
    pub(crate) now: i64,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that a reader of the token must understand. None are supported.
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

/// One name or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum TokenAudience {
    One(String),
    Several(Vec<String>),
}

impl TokenAudience {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: TokenAudience,
    #[serde(default)]
    azp: Option<String>,
    exp: i64,
    iat: i64,
    #[serde(default)]
    nonce: Option<String>,
    #[serde(flatten)]
    profile: ProfileClaims,
}

/// What is said of a person besides who they are, in a token or by the provider on request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ProfileClaims {
    #[serde(default)]
    email: Option<String>,
    #[serde(default)]
    email_verified: Option<bool>,
}

impl ProfileClaims {
    /// Returns the address of mail that the provider has verified.
    pub(crate) fn verified_mail(&self) -> Option<&str> {
        self.email.as_deref().filter(|_| self.email_verified == Some(true))
    }
}

/// A person of whom a provider has said who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OidcUser {
    pub(crate) subject: String,
    pub(crate) profile: ProfileClaims,
}

/// Reads a token and checks all of it: the signature first, so that nothing else is believed before.
pub(crate) fn verify(
    token: &str,
    keys: &KeySet,
    expected: &TokenRequirements<'_>,
) -> Result<OidcUser, TokenError> {
    if token.len() > MAX_TOKEN {
        return Err(TokenError::Malformed);
    }
    let mut parts = token.split('.');
    let (Some(header), Some(payload), Some(mac), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Malformed);
    };
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let parsed: TokenHeader = json(&decode(header)?)?;
    let algorithm = Algorithm::of_name(&parsed.alg).filter(|_| parsed.crit.is_none());
    let algorithm = algorithm.ok_or_else(|| TokenError::Algorithm(parsed.alg.clone()))?;
    let (message, mac) = (format!("{header}.{payload}"), decode(mac)?);
    let is_usable = |key: &&PublicKey| {
        key.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && key.alg.as_deref().is_none_or(|alg| alg == parsed.alg)
            && (parsed.kid.is_none() || key.kid == parsed.kid)
    };
    let mut checked = keys
        .keys
        .iter()
        .filter(is_usable)
        .filter_map(|key| algorithm.verify(key, message.as_bytes(), &mac))
        .peekable();
    if checked.peek().is_none() {
        return Err(TokenError::Key);
    }
    if !checked.any(|is_right| is_right) {
        return Err(TokenError::Signature);
    }
    let claims: Claims = json(&decode(payload)?)?;
    claims.checked(expected)
}

impl Claims {
    fn checked(self, expected: &TokenRequirements<'_>) -> Result<OidcUser, TokenError> {
        if self.iss != expected.issuer {
            return Err(TokenError::Issuer(self.iss));
        }
        let audience = self.aud.names();
        let is_ours = audience.iter().any(|name| name == expected.client_id);
        // Made for several, it says which of them has asked for it.
        let is_for_us = match &self.azp {
            Some(party) => party == expected.client_id,
            None => audience.len() == 1,
        };
        if !is_ours || !is_for_us {
            return Err(TokenError::Audience);
        }
        if self.nonce.as_deref() != Some(expected.nonce) {
            return Err(TokenError::Nonce);
        }
        let is_over = expected.now.saturating_sub(SKEW) >= self.exp;
        if is_over || expected.now.saturating_sub(self.iat) > MAX_AGE + SKEW {
            return Err(TokenError::Expired);
        }
        if self.iat > expected.now.saturating_add(SKEW) {
            return Err(TokenError::Future);
        }
        if self.sub.is_empty() || self.sub.len() > MAX_SUBJECT {
            return Err(TokenError::Subject);
        }
        Ok(OidcUser { subject: self.sub, profile: self.profile })
    }
}

fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, TokenError> {
    serde_json::from_slice(bytes).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
