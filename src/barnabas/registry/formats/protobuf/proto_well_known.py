"""The types of imports that every schema may use without a reference."""

_PROTOBUF = {
    "any": ["Any"],
    "api": ["Api", "Method", "Mixin"],
    "descriptor": [
        *("FileDescriptorSet", "FileDescriptorProto", "DescriptorProto", "ExtensionRangeOptions"),
        *("FieldDescriptorProto", "OneofDescriptorProto", "EnumDescriptorProto"),
        *("EnumValueDescriptorProto", "ServiceDescriptorProto", "MethodDescriptorProto"),
        *("FileOptions", "MessageOptions", "FieldOptions", "OneofOptions", "EnumOptions"),
        *("EnumValueOptions", "ServiceOptions", "MethodOptions", "UninterpretedOption"),
        *("SourceCodeInfo", "GeneratedCodeInfo"),
    ],
    "duration": ["Duration"],
    "empty": ["Empty"],
    "field_mask": ["FieldMask"],
    "source_context": ["SourceContext"],
    "struct": ["Struct", "Value", "ListValue", "enum NullValue"],
    "timestamp": ["Timestamp"],
    "type": ["Type", "Field", "Enum", "EnumValue", "Option", "enum Syntax"],
    "wrappers": [
        *("DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value"),
        *("UInt32Value", "BoolValue", "StringValue", "BytesValue"),
    ],
}
_TYPE = {
    "calendar_period": ["enum CalendarPeriod"],
    "color": ["Color"],
    "date": ["Date"],
    "datetime": ["DateTime", "TimeZone"],
    "dayofweek": ["enum DayOfWeek"],
    "decimal": ["Decimal"],
    "expr": ["Expr"],
    "fraction": ["Fraction"],
    "interval": ["Interval"],
    "latlng": ["LatLng"],
    "localized_text": ["LocalizedText"],
    "money": ["Money"],
    "month": ["enum Month"],
    "phone_number": ["PhoneNumber", "PhoneNumber.ShortCode"],
    "postal_address": ["PostalAddress"],
    "quaternion": ["Quaternion"],
    "timeofday": ["TimeOfDay"],
}
_CONFLUENT = {"meta": ["Meta"]}
_CONFLUENT_TYPE = {"decimal": ["Decimal"], "variant": ["Variant"]}


def _kinds(package: str, names: list[str]) -> dict[str, str]:
    return {
        f"{package}.{name.removeprefix('enum ')}": (
            "enum" if name.startswith("enum ") else "message"
        )
        for name in names
    }


# Path of the import -> full name of the type -> "message" or "enum".
WELL_KNOWN: dict[str, dict[str, str]] = {
    f"{package.replace('.', '/')}/{file}.proto": _kinds(package, names)
    for package, files in (
        ("google.protobuf", _PROTOBUF),
        ("google.type", _TYPE),
        ("confluent", _CONFLUENT),
        ("confluent.type", _CONFLUENT_TYPE),
    )
    for file, names in files.items()
}
