//! Tokens for tests, made with a key of the test's own.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// A key that signs, and the set that publishes it.
pub(crate) struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { pair, random }
    }

    pub(crate) fn keys(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "one",
            "x": text(x), "y": text(y),
        });
        json!({ "keys": [{ "kty": "unheard-of" }, key] })
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", text(header), text(claims));
        let made = self.pair.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(made.as_ref()))
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({ "alg": "ES256", "kid": "one" }), claims)
    }
}
