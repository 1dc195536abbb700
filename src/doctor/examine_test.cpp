#include "doctor/examine.hpp"

#include <gtest/gtest.h>
TEST(Stub, Stub) {}
