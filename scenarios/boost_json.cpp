// Boost.JSON without its library: one translation unit holds the code.
#include <boost/json/src.hpp>
