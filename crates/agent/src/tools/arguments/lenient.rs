//! Reading of values as models write them: numbers and flags as strings, lists and
//! objects as strings of JSON, one item in place of a list.

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::BadArgument;

/// A value that is read leniently.
pub(super) struct Lenient(pub(super) Value);

impl Lenient {
    /// Returns a number, also one that came as a string.
    fn number(&self, wanted: &str) -> Result<f64, BadArgument> {
        let number = match &self.0 {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| BadArgument::wrong(wanted, &self.0))
    }

    fn integer(&self) -> Result<i64, BadArgument> {
        let number = self.number("a whole number")?;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        if number.fract() == 0.0 && number.abs() < 9e15 {
            Ok(number as i64)
        } else {
            Err(BadArgument::wrong("a whole number", &self.0))
        }
    }

    fn text(self, wanted: &str) -> Result<String, BadArgument> {
        match self.0 {
            Value::String(text) => Ok(text),
            // A number is taken for its digits, as in an id.
            Value::Number(number) => Ok(number.to_string()),
            other => Err(BadArgument::wrong(wanted, &other)),
        }
    }

    /// Returns an object, also one that came as a string of JSON.
    fn object(self) -> Result<Map<String, Value>, BadArgument> {
        match self.0 {
            Value::Object(fields) => Ok(fields),
            Value::String(text) if let Ok(Value::Object(fields)) = serde_json::from_str(&text) => {
                Ok(fields)
            }
            other => Err(BadArgument::wrong("an object", &other)),
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
            visitor.visit_i64(self.integer()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Lenient {
    type Error = BadArgument;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.0.deserialize_any(visitor).map_err(BadArgument::custom)
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_f64(self.number("a number")?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let word = match &self.0 {
            Value::Bool(flag) => return visitor.visit_bool(*flag),
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_ascii_lowercase(),
            _ => String::from("neither"),
        };
        match word.as_str() {
            "true" | "yes" | "1" => visitor.visit_bool(true),
            "false" | "no" | "0" | "" => visitor.visit_bool(false),
            _ => Err(BadArgument::wrong("true or false", &self.0)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_string(self.text("a string")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let items = match self.0 {
            Value::Array(items) => items,
            Value::String(text) if let Ok(Value::Array(items)) = serde_json::from_str(&text) => {
                items
            }
            alone => {
                let items = Items(vec![alone.clone()].into_iter());
                return visitor.visit_seq(items).map_err(|_| BadArgument::wrong("a list", &alone));
            }
        };
        visitor.visit_seq(Items(items.into_iter()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_map(ObjectFields { fields: self.object()?.into_iter(), next: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        let mut fields = self.object()?;
        fields.retain(|_, value| !value.is_null());
        visitor.visit_map(ObjectFields { fields: fields.into_iter(), next: None })
    }

    /// Reads a word of a choice, however it is capitalised and joined.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        let word = self.text("a string")?.trim().to_ascii_lowercase().replace([' ', '-'], "_");
        visitor.visit_enum(IntoDeserializer::<BadArgument>::into_deserializer(word))
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// The items of a list.
struct Items(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Items {
    type Error = BadArgument;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, BadArgument> {
        let item = self.0.next().map(|item| seed.deserialize(Lenient(item)));
        item.transpose().map_err(BadArgument::of_item)
    }
}

struct ObjectFields {
    fields: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for ObjectFields {
    type Error = BadArgument;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, BadArgument> {
        self.next = self.fields.next();
        let key = self.next.as_ref().map(|(name, _)| name.as_str());
        key.map(|key| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, BadArgument> {
        let (name, value) = self.next.take().unwrap_or_default();
        seed.deserialize(Lenient(value)).map_err(|error| error.within(&name))
    }
}
